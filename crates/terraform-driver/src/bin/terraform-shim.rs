//! Standalone shim binary, for users of the driver without `capt`: `terraform-shim RUN_DIR`.

use std::{path::PathBuf, process::ExitCode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(run_dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return ExitCode::from(2);
    };
    match terraform_driver::shim::main(&run_dir).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(_recorded_in_the_run_directory) => ExitCode::FAILURE,
    }
}
