//! Where long work is done: away from threads that others wait for, and on a stack that is large enough.

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
const LARGE_STACK: usize = 256 << 20;

/// Does work that may take long, without holding up the other tasks of this thread where the runtime has others.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let has_others =
        Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if !has_others {
        return work();
    }
    let mut work = Some(work);
    let done = catch_unwind(AssertUnwindSafe(|| block_in_place(|| work.take().map(|work| work()))));
    match (done, work) {
        (Ok(Some(done)), _) => done,
        // Tasks of a `LocalSet` cannot make room for others; nobody can ask for that beforehand.
        (_, Some(work)) => work(),
        (Err(panic), None) => resume_unwind(panic),
        (Ok(None), None) => unreachable!("work is taken only to be done"),
    }
}

/// Does work on a large stack; work within such work stays where it is. `None` if there is no such stack.
pub fn roomy<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
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
    aside(|| {
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("cel".to_owned()).stack_size(LARGE_STACK);
            builder.spawn_scoped(scope, inside).ok()?.join().ok()
        })
    })
}

#[cfg(test)]
thread_local! {
    /// Large stacks that this thread has asked for.
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
            // Queued behind this task on the only worker: it runs because the worker is given away.
            let other = Arc::clone(&waiter);
            let next = tokio::spawn(async move { aside(|| other.wait()).is_leader() });
            let first = aside(|| waiter.wait()).is_leader();
            first != next.await.unwrap()
        });
        assert!(work.await.unwrap());
    }

    #[tokio::test]
    async fn a_single_thread_does_it_itself() {
        let here = thread::current().id();
        assert_eq!(aside(|| thread::current().id()), here);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_local_set_does_it_itself() {
        let local = tokio::task::LocalSet::new();
        assert_eq!(local.run_until(async { aside(|| 3) }).await, 3);
    }

    #[test]
    fn work_within_work_stays_on_the_large_stack() {
        let ids = roomy(|| (thread::current().id(), roomy(|| thread::current().id())));
        let (outer, inner) = ids.unwrap();
        assert_eq!(inner, Some(outer));
        assert_ne!(outer, thread::current().id());
    }
}
