//! Handles: numbers that stand for what the program has made.

use crate::result::{CudaResult, Outcome};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// No two handles of a process are the same, whatever they stand for, so that one of a wrong kind is found out.
static NEXT: AtomicUsize = AtomicUsize::new(0x5157_0000_0000);
const STEP: usize = 16;

/// Things by their handles.
pub struct Table<T>(HashMap<usize, T>);

impl<T> Table<T> {
    /// Nothing yet.
    pub fn new() -> Table<T> {
        Table(HashMap::new())
    }

    /// Adds a thing; its handle.
    pub fn add(&mut self, thing: T) -> usize {
        let handle = NEXT.fetch_add(STEP, Ordering::Relaxed);
        self.0.insert(handle, thing);
        handle
    }

    /// What a handle stands for.
    pub fn get(&self, handle: usize) -> Outcome<&T> {
        self.0.get(&handle).ok_or(CudaResult::INVALID_HANDLE)
    }

    /// What a handle stands for, to be changed.
    pub fn get_mut(&mut self, handle: usize) -> Outcome<&mut T> {
        self.0.get_mut(&handle).ok_or(CudaResult::INVALID_HANDLE)
    }

    /// Takes a thing out; its handle is of no use any more.
    pub fn remove(&mut self, handle: usize) -> Outcome<T> {
        self.0.remove(&handle).ok_or(CudaResult::INVALID_HANDLE)
    }

    /// Everything, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut()
    }

    /// Removes what does not pass.
    pub fn retain(&mut self, pass: impl Fn(&T) -> bool) {
        self.0.retain(|_, thing| pass(thing));
    }

    /// The handle of the first thing that passes.
    pub fn find(&self, pass: impl Fn(&T) -> bool) -> Option<usize> {
        self.0.iter().find(|(_, thing)| pass(thing)).map(|(handle, _)| *handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_good_until_it_is_removed() {
        let (mut table, mut other) = (Table::new(), Table::new());
        let handle = table.add("a");
        assert_ne!(handle, other.add("b"));
        assert_eq!(table.get(handle), Ok(&"a"));
        assert_eq!(other.get(handle), Err(CudaResult::INVALID_HANDLE));
        assert_eq!(table.find(|thing| *thing == "a"), Some(handle));
        table.remove(handle).unwrap();
        assert_eq!(table.remove(handle), Err(CudaResult::INVALID_HANDLE));
    }
}
