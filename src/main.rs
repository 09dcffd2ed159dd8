//! The `baton` command.

// A request's memory is allocated on one thread and freed on another; the system's allocator makes
// them wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    baton::cli::main()
}
