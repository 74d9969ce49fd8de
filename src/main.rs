//! The `capt` command: parse, dispatch, exit code; nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    capt::cli::main()
}
