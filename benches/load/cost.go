package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const ticksPerSecond = 100 // of /proc, on Linux

// cpuSeconds is what a process has used, user and system.
func cpuSeconds(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return float64(user+system) / ticksPerSecond, err
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
