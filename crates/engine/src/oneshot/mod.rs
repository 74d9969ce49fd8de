//! `capt plan`, `apply` and `destroy` on manifest files, without Kubernetes: orders the workspaces and runs the pipeline of
//! each.

mod dependency_graph;
mod destroy_set;
mod oneshot_pipeline;
mod progress;
mod runner;

pub use dependency_graph::{DependencyCycle, DependencyGraph};
pub use destroy_set::{DependencyInUse, DestroySet, compute_destroy_set};
pub use oneshot_pipeline::{ConfirmPlan, OneShotPipeline};
pub use progress::{ProgressBoard, ProgressLine, WorkspaceStage};
pub use runner::{TaskResult, TaskRunner, WorkspaceTask};
