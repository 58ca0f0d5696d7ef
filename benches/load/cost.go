package main

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// cpuSeconds is what a process has used, user and system, by its CPU clock, which is finer than /proc tells.
func cpuSeconds(pid int) (float64, error) {
	// clock_getcpuclockid(3): the clock of all threads of a process.
	const allThreads = 2
	clock, now := int32(^pid<<3|allThreads), syscall.Timespec{}
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		return 0, fmt.Errorf("the CPU clock of process %d: %w", pid, errno)
	}
	return time.Duration(now.Nano()).Seconds(), nil
}

// perCore is the figure of so many requests since `begun`: in a second, in a second of the broker's CPU, and that CPU.
func perCore(o options, what string, count int64, begun time.Time, before float64) (map[string]any, error) {
	seconds := time.Since(begun).Seconds()
	after, err := cpuSeconds(o.pid)
	if err != nil {
		return nil, err
	}
	cpu := after - before
	return map[string]any{what: count, "per_s": float64(count) / seconds, "per_core_s": float64(count) / max(cpu, 0.01), "cpu_s_per_million": cpu / float64(count) * 1e6}, nil
}
