use crate::{Case, Factors, Keys, Layout, Lengths, Lists, Order, Rng, Sinks};
use problem::{DType, Mask};

const DIMS: [u64; 10] = [8, 16, 32, 64, 80, 96, 128, 192, 256, 512];
const PAGES: [u64; 6] = [1, 2, 3, 16, 64, 128];
/// Sets the numbers that mask tensors are drawn from apart from the others.
const MASK_TENSORS: u64 = 0x6d61_736b;
/// Sets the numbers apart that say which keys are e4m3.
const NARROW_KEYS: u64 = 0x6534_6d33;
/// The most multiply-adds of one head's scores, so that a case stays quick on the oracle.
const MOST_WORK: u64 = 1 << 22;

/// A random valid case, the same for the same seed; its name tells the seed.
pub fn random_case(seed: u64) -> Case {
    let mut case = without_mask_tensors(seed);
    // From numbers of their own: what a seed gave before there were mask tensors, it still gives.
    let mut rng = Rng::new(seed ^ MASK_TENSORS);
    let packed = matches!(case.queries, Lengths::Each(_));
    for keys in std::iter::once(&mut case.first).chain(&mut case.second) {
        let possible = !packed && keys.layout != Layout::Packed && keys.indices.is_none();
        keys.attn_mask = (rng.one_in(4) && possible).then(|| random_attn_mask(&mut rng));
    }
    make_narrow(&mut Rng::new(seed ^ NARROW_KEYS), &mut case);
    case
}

/// Makes keys and values of one case in six e4m3, of both segments or of one.
fn make_narrow(rng: &mut Rng, case: &mut Case) {
    let any = rng.one_in(6);
    for keys in std::iter::once(&mut case.first).chain(&mut case.second) {
        let possible = !keys.model1 && keys.storage.is_none();
        if any && possible && !rng.one_in(4) {
            let all = [Factors::None, Factors::Tensor, Factors::Head, Factors::Sequence];
            keys.e4m3 = Some(rng.choose(&all));
        }
    }
}

/// An element type and some dimensions in some order.
fn random_attn_mask(rng: &mut Rng) -> String {
    let element = rng.choose(&["bool", "bool", "f32", "f16", "bf16"]);
    let dims = rng.choose(&["bhqk", "bhqk", "qk", "bk", "bqk", "hqk", "bhkq", "hk", "q", "k"]);
    format!("{element}-{dims}")
}

fn without_mask_tensors(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let batch = rng.choose(&[1, 1, 2, 3, 5]);
    let dim = rng.choose(&DIMS);
    let model1 = dim == 512 && rng.one_in(3);
    let kv_heads = if model1 { 1 } else { rng.choose(&[1, 1, 2, 3]) };
    let packed_queries = rng.one_in(3);
    let longest_query = random_length(&mut rng, MOST_WORK.isqrt().min(200));
    let longest_key = random_length(&mut rng, MOST_WORK / (longest_query * dim).max(1));
    let first = random_keys(&mut rng, batch, longest_key, model1);
    let second = rng.one_in(3).then(|| {
        let longest = random_length(&mut rng, longest_key.max(2));
        random_keys(&mut rng, batch, longest, model1)
    });
    let shared = first.shared || second.as_ref().is_some_and(|s| s.shared);
    let mut case = Case {
        name: format!("random-{seed}"),
        seed: Some(seed >> 11),
        dtype: match model1 {
            true => DType::Bf16,
            false => rng.choose(&[DType::Bf16, DType::F16, DType::F32]),
        },
        batch,
        heads: kv_heads * rng.choose(&[1, 1, 2, 4, 7, 8]),
        kv_heads: Some(kv_heads),
        dim,
        value_dim: (!model1 && rng.one_in(4)).then(|| match shared {
            true => dim / 2,
            false => rng.choose(&DIMS),
        }),
        queries: match packed_queries {
            true => Lengths::Each((0..batch).map(|_| rng.below(longest_query + 1)).collect()),
            false => Lengths::Same(longest_query),
        },
        first,
        second,
        scale: rng.one_in(5).then(|| rng.choose(&[0.5, 0.03125, 0.2])),
        softcap: rng.one_in(5).then(|| rng.choose(&[1.0, 5.0, 30.0])),
        sinks: random_sinks(&mut rng),
        lse: !rng.one_in(4),
        order: rng.choose(&[Order::Bhsd, Order::Bshd]),
        gap: rng.choose(&[0, 0, 8, 24]),
        positions: (0..batch).map(|_| rng.below(longest_key * 4 + 1)).collect(),
        amplitude: rng.one_in(6).then(|| rng.choose(&[0.25, 3.0])),
        lean: None,
        special: Vec::new(),
    };
    random_extremes(&mut rng, &mut case);
    vary_format(seed, &mut case);
    case
}

/// Packed rows of one case in two have another format of as many numbers.
fn vary_format(seed: u64, case: &mut Case) {
    const FORMATS: [&str; 4] = ["V4.1-fp8", "V4.1-fp8-inline", "V4.1-fp4", "V4.1-fp4-inline"];
    let Some(format) = FORMATS.get((seed >> 20) as usize % (2 * FORMATS.len())) else { return };
    for keys in std::iter::once(&mut case.first).chain(&mut case.second).filter(|k| k.model1) {
        keys.model1 = false;
        keys.storage = Some((*format).to_string());
    }
}

/// Makes one case in six uncommon: numbers that are not finite, values near the largest number, soft caps far from
/// the scores.
fn random_extremes(rng: &mut Rng, case: &mut Case) {
    if case.softcap.is_some() && rng.one_in(3) {
        case.softcap = Some(rng.choose(&[1e-38, 1e-6, 300.0, 1e4, 1e6, 1e20, 3e38]));
    }
    if !rng.one_in(6) {
        return;
    }
    let rows = [case.queries.longest(), case.first.keys.longest()];
    let (queries, keys) = (rows[0].max(1), rows[1].max(1));
    let most = if case.dtype == DType::F16 { "65504" } else { "3.3e38" };
    let number = rng.choose(&["nan", "nan", "inf", "-inf"]);
    case.special = match rng.below(6) {
        0 => vec![format!("q[{}] = {number}", rng.below(queries))],
        1 => vec![format!("k[{},{}] = {number}", rng.below(keys), rng.below(case.dim))],
        2 => vec![format!("v[{}] = {most}", rng.below(keys)), "v[0] = -1e30".to_string()],
        3 => vec![format!("v[*] = {most}")],
        _ => vec![
            format!("v[{}] = {number}", rng.below(keys)),
            format!("v[{},{}] = nan", rng.below(keys), rng.below(case.dim)),
        ],
    };
}

/// Lengths near the edges of tiles as often as anywhere.
fn random_length(rng: &mut Rng, most: u64) -> u64 {
    let edge = rng.choose(&[1, 2, 16, 32, 64, 96, 128, 192, 256, 384]);
    let length = match rng.below(3) {
        0 => edge,
        1 => (edge + rng.below(3)).saturating_sub(1),
        _ => 1 + rng.below(400),
    };
    length.clamp(1, most.max(1))
}

fn random_keys(rng: &mut Rng, batch: u64, longest: u64, model1: bool) -> Keys {
    let indexed = rng.one_in(5);
    let layout = match rng.below(3) {
        0 if !indexed && !model1 => Layout::Packed,
        1 => Layout::Paged,
        _ => Layout::Batched,
    };
    let keys = match layout {
        Layout::Packed => Lengths::Each((0..batch).map(|_| rng.below(longest + 1)).collect()),
        _ if rng.one_in(2) => Lengths::Same(longest),
        _ => {
            let mut each: Vec<u64> = (0..batch).map(|_| rng.below(longest + 1)).collect();
            each[0] = longest;
            Lengths::Each(each)
        }
    };
    let width = 1 + rng.below(longest + 8);
    let trimmed = indexed && rng.one_in(2);
    Keys {
        keys,
        mask: if indexed { Mask::Full } else { random_mask(rng, longest) },
        layout,
        page: (layout == Layout::Paged).then(|| rng.choose(&PAGES)),
        shared: model1 || rng.one_in(4),
        indices: indexed.then_some(width),
        entries: if trimmed { (0..batch).map(|_| rng.below(width + 1)).collect() } else { vec![] },
        lists: match indexed {
            true => rng.choose(&[Lists::Mixed, Lists::Mixed, Lists::Repeated, Lists::Holes]),
            false => Lists::Mixed,
        },
        model1,
        storage: None,
        attn_mask: None,
        e4m3: None,
    }
}

fn random_mask(rng: &mut Rng, longest: u64) -> Mask {
    let mut side = || match rng.below(3) {
        0 => None,
        1 => Some(0),
        _ => Some(rng.below(longest + 2)),
    };
    let window = Mask::Window { left: side(), right: side() };
    match rng.below(5) {
        0 => Mask::Full,
        1 | 2 => Mask::Causal,
        3 => window,
        _ => Mask::Compressed { ratio: rng.choose(&[1, 4, 128]) },
    }
}

fn random_sinks(rng: &mut Rng) -> Option<Sinks> {
    match rng.below(5) {
        0 => Some(Sinks::Values(vec![f64::NEG_INFINITY, 0.0, 1e30, -50.0, f64::INFINITY, 50.0])),
        1 | 2 => Some(Sinks::Random("random".to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CaseData;

    #[test]
    fn random_cases_are_valid_varied_and_repeatable() {
        let cases: Vec<Case> = (0..300).map(random_case).collect();
        for case in &cases {
            let problem = case.problem().unwrap_or_else(|e| panic!("{e}\n{case}"));
            assert!(problem.flops() < 4e9, "{case}");
        }
        assert!(cases.iter().any(|c| c.segments().any(|keys| keys.attn_mask.is_some())));
        assert!(cases.iter().any(|c| c.segments().any(|keys| keys.e4m3.is_some())));
        assert_eq!(random_case(7), cases[7]);
        assert!(
            cases.iter().any(|c| c.first.model1 || c.first.storage.is_some())
                && cases.iter().any(|c| c.second.is_some())
        );
        let inputs =
            CaseData::new(&cases[0]).unwrap().inputs().get(problem::Slot::Q).unwrap().len();
        assert!(inputs > 0);
    }
}
