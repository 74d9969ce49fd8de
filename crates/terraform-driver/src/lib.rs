//! Runs terraform or tofu as a supervised child.
