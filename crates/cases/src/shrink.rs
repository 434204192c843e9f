use crate::{Case, Keys, Layout, Lengths, Lists, Order};
use problem::{DType, Mask};

/// Most cases tried while shrinking.
const MOST_TRIES: usize = 300;

/// The simplest case found that still fails, starting from `case`, which fails.
pub fn shrink(case: &Case, mut fails: impl FnMut(&Case) -> bool) -> Case {
    let mut best = Case { seed: Some(case.seed()), ..case.clone() };
    let mut tries = 0;
    loop {
        let simpler = simpler(&best).into_iter().find(|candidate| {
            tries += 1;
            tries <= MOST_TRIES && candidate.problem().is_ok() && fails(candidate)
        });
        match simpler {
            Some(case) => best = case,
            None => return best,
        }
    }
}

/// Cases one step simpler than `case`, largest step first.
fn simpler(case: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |edit: &dyn Fn(&mut Case)| {
        let mut next = case.clone();
        edit(&mut next);
        if next != *case {
            cases.push(next);
        }
    };
    add(&|c| c.second = None);
    add(&|c| keep_sequences(c, 1));
    add(&|c| keep_sequences(c, case.sequences().saturating_sub(1)));
    add(&|c| c.heads = case.kv_heads());
    add(&|c| (c.heads, c.kv_heads) = (case.heads / case.kv_heads(), Some(1)));
    add(&|c| c.sinks = None);
    add(&|c| c.special.truncate(case.special.len().saturating_sub(1)));
    add(&|c| c.special = case.special.iter().skip(1).cloned().collect());
    add(&|c| c.softcap = None);
    add(&|c| c.scale = None);
    add(&|c| c.value_dim = None);
    add(&|c| (c.amplitude, c.lean) = (None, None));
    add(&|c| (c.gap, c.order) = (0, Order::Bhsd));
    add(&|c| c.dtype = DType::F32);
    add(&|c| c.dim = (case.dim / 2).max(8));
    add(&|c| c.queries = map(&case.queries, |n| n / 2));
    add(&|c| c.queries = map(&case.queries, |n| n.saturating_sub(1)));
    add(&|c| c.queries = Lengths::Same(case.queries.longest()));
    simpler_keys(&case.first, &mut |keys| add(&|c| c.first = keys.clone()));
    if let Some(second) = &case.second {
        simpler_keys(second, &mut |keys| add(&|c| c.second = Some(keys.clone())));
    }
    cases
}

fn simpler_keys(keys: &Keys, add: &mut dyn FnMut(Keys)) {
    let plain = Keys { layout: Layout::Batched, page: None, ..keys.clone() };
    add(plain);
    let whole = Keys { entries: Vec::new(), lists: Lists::Mixed, ..keys.clone() };
    add(Keys { indices: None, ..whole.clone() });
    add(whole);
    add(Keys { lists: Lists::Mixed, ..keys.clone() });
    add(Keys { mask: Mask::Full, ..keys.clone() });
    add(Keys { attn_mask: None, ..keys.clone() });
    add(Keys { e4m3: None, ..keys.clone() });
    add(Keys { model1: false, storage: None, ..keys.clone() });
    add(Keys { shared: false, model1: false, storage: None, ..keys.clone() });
    add(Keys { keys: Lengths::Same(keys.keys.longest()), ..keys.clone() });
    add(Keys { keys: map(&keys.keys, |n| n / 2), ..keys.clone() });
    add(Keys { keys: map(&keys.keys, |n| n.saturating_sub(1)), ..keys.clone() });
}

fn map(lengths: &Lengths, f: impl Fn(u64) -> u64) -> Lengths {
    match lengths {
        Lengths::Same(n) => Lengths::Same(f(*n)),
        Lengths::Each(list) => Lengths::Each(list.iter().map(|n| f(*n)).collect()),
    }
}

fn keep_sequences(case: &mut Case, count: u64) {
    let cut = |lengths: &mut Lengths| {
        if let Lengths::Each(list) = lengths {
            list.truncate(count as usize);
        }
    };
    case.batch = case.batch.min(count).max(1);
    cut(&mut case.queries);
    cut(&mut case.first.keys);
    if let Some(second) = &mut case.second {
        cut(&mut second.keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaseData, random_case};

    /// Whatever is left of a case has data, down to tensors without a row.
    #[test]
    fn every_simpler_case_has_data() {
        for seed in (0..40).chain([1797]) {
            let small = shrink(&random_case(seed), |case| CaseData::new(case).is_ok());
            assert!(small.queries.longest() == 0 && small.first.keys.longest() == 0, "{small}");
        }
    }

    #[test]
    fn shrinking_keeps_what_fails_and_drops_the_rest() {
        let fails = |c: &Case| c.first.mask == Mask::Causal && c.queries.longest() >= 5;
        let case = (0..).map(random_case).find(|c| fails(c) && c.second.is_some()).unwrap();
        let small = shrink(&case, fails);
        assert!(fails(&small));
        assert_eq!(small.queries.longest(), 5);
        assert_eq!((small.sequences(), small.heads, small.dim), (1, 1, 8));
        assert!(small.second.is_none() && small.sinks.is_none() && small.first.keys.longest() <= 1);
        assert_eq!(small.first.layout, Layout::Batched);
    }
}
