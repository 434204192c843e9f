//! Sharing units of work with the other threads of rayon's pool.
//!
//! The calling thread starts immediately and does whatever nobody else has begun. Waking a sleeping
//! thread takes tens of microseconds, longer than many a decoding step: a thread that comes too late
//! finds nothing left, and the caller does not wait for it. A thread that has come stays awake for a
//! moment, because calls follow each other: otherwise one that is always a little late would never help.
//!
//! A thread that never comes, because the machine is busy, is not asked again and again: a calling
//! thread has at most one job in the pool's queue, which helps with whatever call that thread is then in.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Turns of waiting awake for units that others have begun: some ten microseconds.
const AWAKE: usize = 256;
/// How long a caller that waits sleeps at a time.
const NAP: Duration = Duration::from_millis(50);
/// How long a helper stays awake for the next call.
const LINGER: Duration = Duration::from_micros(100);
/// Calls that a helper serves before it is the pool's again, for whatever else is to be done there.
const MOST_CALLS: usize = 64;

/// Calls `work` with every number below `count`, on this thread and those of rayon's current pool, and
/// `idle` on this thread now and then while it waits for the others.
pub(super) fn share(count: usize, work: impl Fn(usize) + Sync, idle: impl Fn()) {
    let helpers = (rayon::current_num_threads() - 1).min(count.saturating_sub(1));
    if helpers == 0 {
        return (0..count).for_each(work);
    }
    let work: &(dyn Fn(usize) + Sync) = &work;
    let team = Arc::new(Team {
        // SAFETY: only the lifetime changes; it is used for units alone that this call waits for.
        work: unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static _>(work) },
        count,
        next: AtomicUsize::new(0),
        unfinished: AtomicUsize::new(count),
        caller: std::thread::current(),
        panic: Mutex::new(None),
    });
    let awake = team.ask_awake(helpers);
    let post = POST.with(Arc::clone);
    post.ask(&team, helpers - awake);
    team.take_part();
    team.wait(idle);
    post.withdraw();
    if let Some(panic) = team.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(panic);
    }
}

/// A call's units, who waits for them, and the panic of one, if any.
struct Team {
    work: *const (dyn Fn(usize) + Sync),
    count: usize,
    /// The first unit that nobody has begun.
    next: AtomicUsize,
    unfinished: AtomicUsize,
    caller: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the work may be called from any thread; when it may be called at all is argued there.
unsafe impl Send for Team {}
// SAFETY: as above.
unsafe impl Sync for Team {}

impl Team {
    /// Asks for `helpers` threads of the pool, which ask for each other.
    fn enlist(self: &Arc<Self>, helpers: usize) {
        if helpers == 0 || self.next.load(Ordering::Relaxed) >= self.count {
            return;
        }
        let team = self.clone();
        rayon::spawn(move || team.help(helpers));
    }

    /// Takes part as the first of `helpers` threads.
    fn help(self: Arc<Self>, helpers: usize) {
        let others = helpers - 1;
        self.enlist(others / 2);
        self.enlist(others - others / 2);
        self.take_part();
        drop(self);
        linger();
    }

    /// Asks up to `helpers` of those that are still awake; returns how many there are.
    fn ask_awake(self: &Arc<Self>, helpers: usize) -> usize {
        let take = |n: usize| (n > 0).then(|| n - n.min(helpers));
        let found = LINGERING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let asked = found.map_or(0, |n| n.min(helpers));
        if asked > 0 {
            let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
            calls.extend(std::iter::repeat_n(self.clone(), asked));
            CALLED.store(calls.len(), Ordering::Relaxed);
        }
        asked
    }

    /// Does units until all are begun.
    fn take_part(&self) {
        loop {
            let unit = self.next.fetch_add(1, Ordering::Relaxed);
            if unit >= self.count {
                return;
            }
            // SAFETY: this unit is not finished, so the caller is still in `share`, and the work lives.
            let work = unsafe { &*self.work };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(unit))) {
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
            if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.caller.unpark();
            }
        }
    }

    /// Waits until all units are finished.
    fn wait(&self, idle: impl Fn()) {
        for _ in 0..AWAKE {
            if self.unfinished.load(Ordering::Acquire) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        while self.unfinished.load(Ordering::Acquire) > 0 {
            std::thread::park_timeout(NAP);
            idle();
        }
    }
}

/// Where a thread leaves the call it wants help with.
#[derive(Default)]
struct Post {
    /// The call, and how many helpers it wants.
    call: Mutex<Option<(Arc<Team>, usize)>>,
    /// A job that will look here is in the pool's queue.
    queued: AtomicBool,
}

thread_local! {
    /// A thread belongs to one pool, so its job is in the queue that its calls are for.
    static POST: Arc<Post> = Arc::default();
}

impl Post {
    /// Asks for `helpers` threads: for one, which asks for the others, so that the caller loses no time.
    fn ask(self: &Arc<Self>, team: &Arc<Team>, helpers: usize) {
        if helpers == 0 {
            return;
        }
        self.replace(Some((team.clone(), helpers)));
        if !self.queued.swap(true, Ordering::AcqRel) {
            let post = self.clone();
            rayon::spawn(move || post.answer());
        }
    }

    fn answer(&self) {
        // First: a call that is left after this one was taken gets a job of its own.
        self.queued.store(false, Ordering::Release);
        if let Some((team, helpers)) = self.replace(None) {
            team.help(helpers);
        }
    }

    /// Nobody need come any more.
    fn withdraw(&self) {
        self.replace(None);
    }

    fn replace(&self, call: Option<(Arc<Team>, usize)>) -> Option<(Arc<Team>, usize)> {
        std::mem::replace(&mut *self.call.lock().unwrap_or_else(PoisonError::into_inner), call)
    }
}

/// Helpers that are awake and have not been asked.
static LINGERING: AtomicUsize = AtomicUsize::new(0);
/// Calls, once for every helper that was asked and has not noticed, and their number.
static CALLS: Mutex<Vec<Arc<Team>>> = Mutex::new(Vec::new());
static CALLED: AtomicUsize = AtomicUsize::new(0);

/// Waits a moment for calls, and takes part in those that come.
fn linger() {
    for _ in 0..MOST_CALLS {
        match next_call() {
            Some(team) => team.take_part(),
            None => return,
        }
    }
}

/// The next call, if it comes in time.
fn next_call() -> Option<Arc<Team>> {
    LINGERING.fetch_add(1, Ordering::Relaxed);
    let start = Instant::now();
    loop {
        if CALLED.load(Ordering::Relaxed) > 0 {
            let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
            let call = calls.pop();
            CALLED.store(calls.len(), Ordering::Relaxed);
            if call.is_some() {
                return call;
            }
        }
        std::hint::spin_loop();
        let leave = |n: usize| n.checked_sub(1);
        // Who has been counted on does not leave: the call is about to come.
        if start.elapsed() > LINGER
            && LINGERING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave).is_ok()
        {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be had")
    }

    /// As the function, of a caller with nothing else to do.
    fn share(count: usize, work: impl Fn(usize) + Sync) {
        super::share(count, work, || {});
    }

    fn add_one(to: &AtomicUsize) {
        to.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn every_unit_is_done_once_before_the_call_returns() {
        for threads in [1, 2, 5] {
            for count in [0, 1, 2, 7, 40] {
                let done: Vec<_> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                pool(threads).install(|| share(count, |unit| add_one(&done[unit])));
                assert!(done.iter().all(|n| n.load(Ordering::Relaxed) == 1), "{threads} {count}");
            }
        }
    }

    #[test]
    fn units_may_share_work_themselves() {
        let done = AtomicUsize::new(0);
        pool(2).install(|| share(4, |_| share(4, |_| add_one(&done))));
        assert_eq!(done.into_inner(), 16);
    }

    #[test]
    fn a_panic_reaches_the_caller_after_the_other_units() {
        let done = AtomicUsize::new(0);
        let work = |unit| {
            assert!(unit != 1, "unit 1 fails");
            add_one(&done);
        };
        let caught = std::panic::catch_unwind(|| pool(2).install(|| share(6, work)));
        let panic = caught.expect_err("unit 1 fails");
        assert_eq!(panic.downcast_ref(), Some(&"unit 1 fails"));
        assert_eq!(done.into_inner(), 5);
    }

    /// A pool of two whose other thread is busy until the sender is dropped.
    fn busy_pool() -> (rayon::ThreadPool, std::sync::mpsc::Sender<()>) {
        let pool = pool(2);
        let (free, busy) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        pool.spawn(move || {
            begin.send(()).expect("waited for");
            let _ = busy.recv();
        });
        begun.recv().expect("the other thread begins");
        (pool, free)
    }

    #[test]
    fn a_thread_that_does_not_come_is_asked_once() {
        let (pool, _free) = busy_pool();
        pool.install(|| {
            let jobs = || super::POST.with(std::sync::Arc::strong_count) - 1;
            for call in 0..100 {
                share(4, |_| {});
                assert!(jobs() <= 1, "{call}");
            }
        });
    }

    #[test]
    fn a_thread_that_comes_late_helps_with_the_call_of_then() {
        let (pool, free) = busy_pool();
        pool.install(|| {
            share(4, |_| {});
            // The job of the call before is in the queue; both threads are needed to get through.
            let both = std::sync::Barrier::new(2);
            drop(free);
            share(2, |_| {
                both.wait();
            });
        });
    }

    #[test]
    fn a_caller_that_waits_is_not_idle() {
        let asked = AtomicUsize::new(0);
        pool(2).install(|| {
            let caller = std::thread::current().id();
            let work = |_| {
                // Others are not done before the caller has been asked.
                while std::thread::current().id() != caller && asked.load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
            };
            let begun = std::sync::Barrier::new(2);
            super::share(
                2,
                |unit| {
                    begun.wait();
                    work(unit);
                },
                || add_one(&asked),
            );
        });
        assert!(asked.into_inner() > 0);
    }
}
