//! The `ottla` program: the allocator, and the library's command line.

#![deny(unsafe_code)]

use std::process::ExitCode;

use ottla::cli::{Arguments, kafka, run, start};

// Decoders reserve by counts that a peer made up. mimalloc reserves such memory without committing it, so that they fail
// cleanly on the bytes that are not there; glibc's allocator would end the process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    forgo_huge_pages();
    if let Some((tool, arguments)) = kafka::called(std::env::args_os()) {
        return (tool.run)(&arguments).into();
    }
    let arguments = Arguments::of_process();
    match &arguments.tool {
        Some(tool) => tool.run().into(),
        None => run(&arguments, start).into(),
    }
}

/// Has the system give memory in pages of 4 KiB where it would give 2 MiB unasked: an idle broker would hold ten times
/// the memory it uses.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix has no such option of prctl")]
fn forgo_huge_pages() {
    let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: this option of prctl takes no pointers, and its other arguments must be zero.
    let _ = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, unused, unused, unused) };
}

#[cfg(not(target_os = "linux"))]
fn forgo_huge_pages() {}
