//! The steps, one by one, and a Service through its life on an API server.

mod steps;
