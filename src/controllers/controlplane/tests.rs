//! The real controller against a real API server in this process. The test plays Cluster API; a fake plays the workspaces,
//! another one EKS.

mod deletion;
mod eks;
mod life;
mod profiles;
mod world;
