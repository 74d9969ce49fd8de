//! Entry point of the `capt` command. Everything else is in [`capt::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    capt::cli::main()
}
