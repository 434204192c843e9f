//! Problems on the command line: the fields of a row of `crates/cases/cases.toml`, as flags.

use cases::{Case, Factors, Keys, Layout, Lengths, Lists, Order, Sinks};
use problem::{DType, Mask};
use std::fmt::Write;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Which problem.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Problem")]
pub struct ProblemArgs {
    /// A case of the project's table, by name; no other flag of the problem is read
    #[arg(long, value_name = "NAME")]
    pub case: Option<String>,
    /// A row of such a table, as `verify` prints it; no other flag of the problem is read
    #[arg(long, value_name = "TOML", conflicts_with = "case")]
    pub row: Option<String>,
    /// Sequences
    #[arg(long, default_value_t = 1)]
    pub batch: u64,
    /// Query heads, or query/KV heads
    #[arg(long, value_name = "N[/N]", default_value = "8")]
    pub heads: Ratio,
    /// Length of a row, or of a key/value row
    #[arg(long, value_name = "N[/N]", default_value = "128")]
    pub dim: Ratio,
    /// Queries per sequence; a list (3,1,5) is packed
    #[arg(long, value_name = "N[,N…]", default_value = "1")]
    pub queries: LengthList,
    /// Keys per sequence; a list is one length each
    #[arg(long, value_name = "N[,N…]", default_value = "1024")]
    pub keys: LengthList,
    /// full, causal, window(L,R) or compressed(R)
    #[arg(long, default_value = "full")]
    pub mask: Mask,
    /// How the keys of sequences lie in memory: batched, packed or paged
    #[arg(long, default_value = "batched", value_parser = layout)]
    pub layout: Layout,
    /// Rows per page; keys are then paged
    #[arg(long, value_name = "ROWS")]
    pub page: Option<u64>,
    /// Values are the first columns of the keys
    #[arg(long)]
    pub shared: bool,
    /// Each query sees a list of this many keys
    #[arg(long, value_name = "N")]
    pub indices: Option<u64>,
    /// Rows are packed in DeepSeek-V4's fp8 format
    #[arg(long)]
    pub model1: bool,
    /// A tensor that hides keys or is added to scores: its element type (bool, f32, f16, bf16), then the
    /// dimensions it has, outermost in memory first, of batch, heads, queries and keys: bool-bhqk
    #[arg(long, value_name = "TYPE[-DIMS]")]
    pub attn_mask: Option<String>,
    /// A second segment under the same softmax, as TOML: 'keys = 512, shared = true'
    #[arg(long, value_name = "TOML")]
    pub second: Option<String>,
    /// bf16, f16, f32 or, on the CPU, f64
    #[arg(long, default_value = "bf16")]
    pub dtype: DType,
    /// Keys and values are e4m3, with factors per: none, tensor, head or sequence
    #[arg(long, value_name = "FACTORS", value_parser = factors)]
    pub e4m3: Option<Factors>,
    /// Memory order of tensors: bhsd or bshd
    #[arg(long, default_value = "bhsd", value_parser = order)]
    pub order: Order,
    /// Factor on scores [default: 1/sqrt(dim)]
    #[arg(long, allow_negative_numbers = true)]
    pub scale: Option<f32>,
    /// Soft cap on scores
    #[arg(long, allow_negative_numbers = true)]
    pub softcap: Option<f32>,
    /// One random sink logit per head
    #[arg(long)]
    pub sinks: bool,
    /// Returns no log-sum-exp
    #[arg(long)]
    pub no_lse: bool,
    /// Seed of random inputs
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub input_seed: u64,
}

impl ProblemArgs {
    /// The case that was asked for.
    pub fn case(&self) -> Result<Case> {
        match (&self.case, &self.row) {
            (Some(name), _) => named(name),
            (_, Some(row)) => from_row(row),
            _ => self.flags(),
        }
    }

    fn flags(&self) -> Result<Case> {
        let layout = if self.page.is_some() { Layout::Paged } else { self.layout };
        let second = self.second.as_deref().map(second_segment).transpose()?;
        Ok(Case {
            name: "command-line".to_string(),
            seed: Some(self.input_seed),
            dtype: self.dtype,
            batch: self.batch,
            heads: self.heads.first,
            kv_heads: self.heads.second,
            dim: self.dim.first,
            value_dim: self.dim.second,
            queries: self.queries.0.clone(),
            first: Keys {
                keys: self.keys.0.clone(),
                mask: self.mask,
                layout,
                page: self.page,
                shared: self.shared || self.model1,
                indices: self.indices,
                entries: vec![],
                lists: Lists::Mixed,
                model1: self.model1,
                storage: None,
                attn_mask: self.attn_mask.clone(),
                e4m3: self.e4m3,
            },
            second,
            scale: self.scale,
            softcap: self.softcap,
            sinks: self.sinks.then(|| Sinks::Random("random".to_string())),
            lse: !self.no_lse,
            order: self.order,
            gap: 0,
            positions: vec![],
            amplitude: None,
            lean: None,
            special: Vec::new(),
        })
    }
}

/// The case of the table called `name`.
fn named(name: &str) -> Result<Case> {
    let found = cases::table().into_iter().find(|case| case.name == name);
    found.ok_or_else(|| {
        format!("no case is called `{name}`; `sixwarp verify --list` names them all").into()
    })
}

/// A case from one row of a table, without its `[[case]]`.
fn from_row(row: &str) -> Result<Case> {
    let row = row.replace("\n[second]", "\n[case.second]");
    let mut cases = cases::parse(&format!("[[case]]\n{row}"))?;
    match cases.len() {
        1 => Ok(cases.remove(0)),
        n => Err(format!("--row: one case is needed, not {n}").into()),
    }
}

fn second_segment(text: &str) -> Result<Keys> {
    let row =
        format!("[[case]]\nname = \"x\"\ndim = 8\nqueries = 1\nkeys = 1\nsecond = {{{text}}}");
    let case = cases::parse(&row).map_err(|error| format!("--second {{{text}}}: {error}"))?;
    case.into_iter().find_map(|case| case.second).ok_or_else(|| "--second: no segment".into())
}

/// What a case asks, in a line for people.
pub fn describe(case: &Case) -> String {
    let value_dim = case.value_dim.map_or(String::new(), |d| format!("/{d}"));
    let mut line = format!(
        "{}, {} sequence(s), {}/{} heads, dim {}{value_dim}, {} queries, {}",
        case.dtype,
        case.sequences(),
        case.heads,
        case.kv_heads(),
        case.dim,
        lengths(&case.queries),
        segment(&case.first),
    );
    // Writing to a string cannot fail.
    let _ = match &case.second {
        Some(second) => write!(line, ", and {}", segment(second)),
        None => Ok(()),
    };
    let _ = match case.softcap {
        Some(cap) => write!(line, ", softcap {cap}"),
        None => Ok(()),
    };
    if case.sinks.is_some() {
        line.push_str(", sinks");
    }
    line
}

fn segment(keys: &Keys) -> String {
    let mut text = format!("{} keys ({})", lengths(&keys.keys), keys.mask);
    if let (Layout::Paged, Some(page)) = (keys.layout, keys.page) {
        text.push_str(&format!(" in pages of {page}"));
    }
    if keys.e4m3.is_some() {
        text.push_str(" of e4m3");
    }
    if keys.shared {
        text.push_str(" that are values too");
    }
    if let Some(width) = keys.indices {
        text.push_str(&format!(" through lists of {width}"));
    }
    if let Some(mask) = &keys.attn_mask {
        text.push_str(&format!(" under a mask tensor ({mask})"));
    }
    text
}

fn lengths(lengths: &Lengths) -> String {
    match lengths {
        Lengths::Same(n) => n.to_string(),
        Lengths::Each(list) => {
            let all: Vec<String> = list.iter().map(u64::to_string).collect();
            all.join("+")
        }
    }
}

fn layout(text: &str) -> std::result::Result<Layout, String> {
    match text {
        "batched" => Ok(Layout::Batched),
        "packed" => Ok(Layout::Packed),
        "paged" => Ok(Layout::Paged),
        _ => Err("one of batched, packed, paged".to_string()),
    }
}

fn factors(text: &str) -> std::result::Result<Factors, String> {
    match text {
        "none" => Ok(Factors::None),
        "tensor" => Ok(Factors::Tensor),
        "head" => Ok(Factors::Head),
        "sequence" => Ok(Factors::Sequence),
        _ => Err("one of none, tensor, head, sequence".to_string()),
    }
}

fn order(text: &str) -> std::result::Result<Order, String> {
    match text {
        "bhsd" => Ok(Order::Bhsd),
        "bshd" => Ok(Order::Bshd),
        _ => Err("one of bhsd, bshd".to_string()),
    }
}

/// One number, or two with a slash between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ratio {
    /// The number before the slash.
    pub first: u64,
    /// The number after it.
    pub second: Option<u64>,
}

impl std::str::FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |text: &str| {
            let error = |_| format!("`{text}` is no number: write 128, or 32/8");
            text.trim().parse::<u64>().map_err(error)
        };
        let (first, second) = match text.split_once('/') {
            Some((first, second)) => (number(first)?, Some(number(second)?)),
            None => (number(text)?, None),
        };
        if first == 0 || second == Some(0) {
            return Err("must be at least 1".to_string());
        }
        Ok(Self { first, second })
    }
}

/// One length for every sequence, or a list with one each.
#[derive(Clone, Debug, PartialEq)]
pub struct LengthList(pub Lengths);

impl Default for LengthList {
    fn default() -> Self {
        Self(Lengths::Same(1))
    }
}

impl std::str::FromStr for LengthList {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |text: &str| {
            let error = |_| format!("`{text}` is no length: write 4096, or 100,7,3000");
            text.trim().parse::<u64>().map_err(error)
        };
        match text.contains(',') {
            false => Ok(Self(Lengths::Same(number(text)?))),
            true => {
                let list = text.split(',').map(number).collect::<std::result::Result<_, _>>()?;
                Ok(Self(Lengths::Each(list)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        problem: ProblemArgs,
    }

    fn case(line: &str) -> Result<Case> {
        Line::try_parse_from(line.split('|'))?.problem.case()
    }

    #[test]
    fn flags_become_a_problem() {
        let line = "x|--heads|32/8|--dim|192/128|--queries|3,1|--keys|9,4|--page|4|--mask|causal";
        let problem = case(line).unwrap().problem().unwrap();
        assert_eq!((problem.query_heads(), problem.kv_heads(), problem.batch()), (32, 8, 2));
        assert_eq!((problem.key_dim(), problem.value_dim()), (192, 128));
        assert!(problem.segments[0].reads_page_table());
        let masked = case("x|--heads|4|--keys|9|--attn-mask|f32-hk").unwrap();
        assert!(describe(&masked).contains("9 keys (full) under a mask tensor (f32-hk)"));
        let mask = masked.problem().unwrap().segments[0].attn_mask.unwrap();
        assert_eq!(mask.shape, [1, 4, 1, 9]);
    }

    #[test]
    fn a_second_segment_and_a_printed_row_are_read() {
        let given = case("x|--shared|--second|keys = 7, shared = true").unwrap();
        assert_eq!(given.second.as_ref().unwrap().keys, Lengths::Same(7));
        assert_eq!(from_row(&given.to_string()).unwrap(), given);
        assert!(describe(&given).contains("1024 keys (full) that are values too, and 7 keys"));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |line: &str| case(line).unwrap_err().to_string();
        assert!(error("x|--heads|32/x").contains("`x` is no number"));
        assert!(error("x|--second|key = 3").contains("unknown field `key`"));
        assert!(error("x|--case|nothing").contains("`nothing`"));
        assert!(error("x|--heads|0").contains("at least 1"));
    }
}
