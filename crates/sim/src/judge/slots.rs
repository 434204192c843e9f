//! Agents of bulk copies.
//!
//! Copies complete in any order, so each in flight is an agent of its own. A vector clock says of an agent
//! only how much of what it did is known, first things first. So two copies may share an agent only if
//! whoever learns of the second has learned of the first.

use crate::warp::WarpId;

/// Copies that are told apart at most: long clocks make every barrier slow.
const MOST: usize = 1000;

/// The copies told apart so far.
#[derive(Default)]
pub(super) struct Slots {
    /// Which warp issued what a slot holds, and when.
    last: Vec<Issue>,
    /// Copies issued.
    issued: u64,
}

#[derive(Clone, Copy)]
struct Issue {
    warp: WarpId,
    number: u64,
}

impl Slots {
    /// A slot for a copy of `warp`: the first of its own of which it knows that the last copy `is_over`, or else
    /// a new one. With `room` used up the oldest is taken, and its last copy is lost from sight.
    pub(super) fn take(
        &mut self,
        warp: WarpId,
        room: usize,
        is_over: impl Fn(usize) -> bool,
    ) -> usize {
        self.issued += 1;
        let issue = Issue { warp, number: self.issued };
        let used = self.last.len();
        let over = (0..used).find(|slot| self.last[*slot].warp == warp && is_over(*slot));
        let has_room = used < room.min(MOST);
        let slot = over.unwrap_or_else(|| if has_room { used } else { self.oldest() });
        match self.last.get_mut(slot) {
            Some(last) => *last = issue,
            None => self.last.push(issue),
        }
        slot
    }

    fn oldest(&self) -> usize {
        (0..self.last.len()).min_by_key(|slot| self.last[*slot].number).unwrap_or(0)
    }

    /// The warp that issued the last copy of a slot.
    pub(super) fn owner(&self, slot: usize) -> WarpId {
        self.last[slot].warp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_by_its_warp_when_its_copy_is_over() {
        let mut slots = Slots::default();
        let none = |_| false;
        assert_eq!([slots.take(WarpId(0), 9, none), slots.take(WarpId(1), 9, none)], [0, 1]);
        assert_eq!(slots.take(WarpId(0), 9, |_| true), 0);
        assert_eq!(slots.take(WarpId(0), 9, |slot| slot == 1), 2);
        assert_eq!([0, 1, 2].map(|slot| slots.owner(slot).0), [0, 1, 0]);
    }

    #[test]
    fn without_room_the_oldest_is_taken() {
        let mut slots = Slots::default();
        let none = |_| false;
        assert_eq!([0, 0].map(|w| slots.take(WarpId(w), 2, none)), [0, 1]);
        assert_eq!([3, 0, 0].map(|w| slots.take(WarpId(w), 2, none)), [0, 1, 0]);
    }
}
