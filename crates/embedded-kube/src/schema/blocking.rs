//! Runs long computations off the async worker threads and on a large stack.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

/// The parser and evaluator recurse once per bracket and operator.
const LARGE_STACK_BYTES: usize = 256 << 20;

/// Runs long work without blocking other tasks of this worker, if the runtime is multi-threaded.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    let has_others =
        Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if !has_others {
        return work();
    }
    let mut work = Some(work);
    let done = catch_unwind(AssertUnwindSafe(|| block_in_place(|| work.take().map(|work| work()))));
    match (done, work) {
        (Ok(Some(done)), _) => done,
        // `block_in_place` panics in a `LocalSet`, which cannot be detected beforehand.
        (_, Some(work)) => work(),
        (Err(panic), None) => resume_unwind(panic),
        (Ok(None), None) => unreachable!("work is taken only to be done"),
    }
}

/// Runs work on a large stack; nested calls reuse it. `None` if no thread could be started.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread_local! {
        static IS_ROOMY: Cell<bool> = const { Cell::new(false) };
    }
    if IS_ROOMY.get() {
        return Some(work());
    }
    let inside = || {
        IS_ROOMY.set(true);
        work()
    };
    #[cfg(test)]
    STARTED.set(STARTED.get() + 1);
    run_blocking(|| {
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("cel".to_owned()).stack_size(LARGE_STACK_BYTES);
            builder.spawn_scoped(scope, inside).ok()?.join().ok()
        })
    })
}

#[cfg(test)]
thread_local! {
    /// Large stacks that this thread has requested.
    pub static STARTED: Cell<usize> = const { Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Barrier},
        thread,
    };

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_go_on_meanwhile() {
        let both = Arc::new(Barrier::new(2));
        let waiter = Arc::clone(&both);
        let work = tokio::spawn(async move {
            // Queued behind this task on the only worker: it runs because the worker is handed over.
            let other = Arc::clone(&waiter);
            let next = tokio::spawn(async move { run_blocking(|| other.wait()).is_leader() });
            let first = run_blocking(|| waiter.wait()).is_leader();
            first != next.await.unwrap()
        });
        assert!(work.await.unwrap());
    }

    #[tokio::test]
    async fn a_single_thread_does_it_itself() {
        let here = thread::current().id();
        assert_eq!(run_blocking(|| thread::current().id()), here);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_local_set_does_it_itself() {
        let local = tokio::task::LocalSet::new();
        assert_eq!(local.run_until(async { run_blocking(|| 3) }).await, 3);
    }

    #[test]
    fn work_within_work_stays_on_the_large_stack() {
        let ids = on_large_stack(|| (thread::current().id(), on_large_stack(|| thread::current().id())));
        let (outer, inner) = ids.unwrap();
        assert_eq!(inner, Some(outer));
        assert_ne!(outer, thread::current().id());
    }
}
