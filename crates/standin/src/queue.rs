//! The one queue that all streams share: jobs run in the order they were queued in, on a thread of their own.
//!
//! That order is one of those that a GPU may choose. A launch returns at once, as on a GPU, and a kernel that does not
//! end can be waited for in vain.

use crate::driver::Driver;
use crate::job::Job;
use crate::result::{CudaResult, Outcome};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Jobs that have not ended.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Job>,
    /// Jobs queued so far.
    queued: u64,
    /// Jobs ended so far.
    ended: u64,
    /// What ended a job that nothing can follow.
    error: Option<CudaResult>,
    has_worker: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Queues a job; its number.
    pub fn push(&self, driver: &'static Driver, job: Job) -> Outcome<u64> {
        let mut inner = self.lock();
        if let Some(error) = inner.error {
            return Err(error);
        }
        inner.jobs.push_back(job);
        inner.queued += 1;
        if !inner.has_worker {
            let worker = std::thread::Builder::new().name("sixwarp".into());
            worker.spawn(|| driver.queue.work(driver)).map_err(|_| CudaResult::OUT_OF_MEMORY)?;
            inner.has_worker = true;
        }
        self.changed.notify_all();
        Ok(inner.queued)
    }

    fn work(&self, driver: &Driver) {
        loop {
            let mut inner = self.lock();
            let job = loop {
                match inner.jobs.pop_front() {
                    Some(job) => break job,
                    None => inner = self.wait(inner),
                }
            };
            drop(inner);
            let result = crate::guard::guarded("a launch", || job.run(driver));
            let mut inner = self.lock();
            inner.ended += 1;
            if result != CudaResult::SUCCESS {
                inner.error.get_or_insert(result);
                inner.ended += inner.jobs.len() as u64;
                inner.jobs.clear();
            }
            self.changed.notify_all();
        }
    }

    fn wait<'a>(&self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.changed.wait(inner).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The number of the last job that was queued.
    pub fn last(&self) -> u64 {
        self.lock().queued
    }

    /// Whether no job is left.
    pub fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.ended == inner.queued
    }

    /// Whether a job has ended, or what ended another for good.
    pub fn has_ended(&self, job: u64) -> Outcome<bool> {
        let inner = self.lock();
        inner.error.map_or(Ok(inner.ended >= job), Err)
    }

    /// Waits until a job has ended.
    pub fn wait_for(&self, job: u64) -> Outcome {
        let mut inner = self.lock();
        while inner.ended < job {
            inner = self.wait(inner);
        }
        inner.error.map_or(Ok(()), Err)
    }

    /// Waits until all jobs have ended, but no longer than this; how many have not.
    pub fn wait_within(&self, limit: Duration) -> u64 {
        let deadline = Instant::now() + limit;
        let mut inner = self.lock();
        loop {
            let (left, now) = (inner.queued - inner.ended, Instant::now());
            if left == 0 || now >= deadline {
                return left;
            }
            let waited = self.changed.wait_timeout(inner, deadline - now);
            inner = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }
}
