//! Calls on a caller's tensors: the problem, and which tensor goes to which slot in which form.

use super::given::{Given, Mismatch};
use crate::Error;
use problem::{
    Element, IndexList, InvalidProblem, Problem, ProblemBuilder, Segment, SegmentSlot, Slot,
};

/// A call that was described and not computed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What is asked.
    pub problem: Problem,
    /// The caller's tensors by the slots they go to; outputs are not among them.
    pub inputs: Vec<Input>,
    /// Shape of the output as the caller sees it.
    pub out_shape: Vec<u64>,
    /// Whether the output that the caller gave does not lie evenly: one of its shape must be computed, and copied.
    pub out_is_apart: bool,
    /// Whether each token became a request of its own. The log-sum-exp then is `[requests · tokens, heads, 1]`.
    pub per_token: bool,
}

/// A tensor of the caller, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The problem's slot.
    pub slot: Slot,
    /// The caller's name of the tensor.
    pub argument: String,
    /// What must be done with it before.
    pub preparation: Preparation,
    /// How often each entry of its first dimension is repeated.
    pub repeat: u64,
}

/// What a tensor must become before kernels read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// It is read as it is.
    AsGiven,
    /// A contiguous tensor of the same numbers.
    Contiguous,
    /// A contiguous tensor of i32.
    Integers,
    /// A contiguous tensor of f32.
    Floats,
}

impl Preparation {
    /// Its name: `given`, `contiguous`, `integers` or `floats`.
    pub fn name(self) -> &'static str {
        match self {
            Preparation::AsGiven => "given",
            Preparation::Contiguous => "contiguous",
            Preparation::Integers => "integers",
            Preparation::Floats => "floats",
        }
    }
}

/// The inputs of a call, while it is described.
#[derive(Default)]
pub(super) struct Inputs(Vec<Input>);

impl Inputs {
    pub fn add(&mut self, slot: Slot, x: &Given, preparation: Preparation) {
        self.add_repeated(slot, x, preparation, 1);
    }

    pub fn add_repeated(&mut self, slot: Slot, x: &Given, preparation: Preparation, repeat: u64) {
        self.0.push(Input { slot, argument: x.name.clone(), preparation, repeat });
    }

    /// Lengths, offsets or a table.
    pub fn add_integers(&mut self, slot: Slot, x: &Given, repeat: u64) {
        let ready = x.is_contiguous(Element::I32);
        let preparation = if ready { Preparation::AsGiven } else { Preparation::Integers };
        self.add_repeated(slot, x, preparation, repeat);
    }

    /// One logit per head, if there are any.
    pub fn add_sinks(&mut self, sinks: Option<&Given>, heads: u64) -> Result<(), Mismatch> {
        let Some(sinks) = sinks else { return Ok(()) };
        sinks.ensure_shape(&[heads])?;
        let ready = sinks.is_contiguous(Element::Float(problem::DType::F32));
        let preparation = if ready { Preparation::AsGiven } else { Preparation::Floats };
        self.add(Slot::Sinks, sinks, preparation);
        Ok(())
    }

    /// Lists of segment `n`, one for each of so many tokens of so many requests: of what width and pitch they are.
    pub fn add_lists(
        &mut self,
        n: u8,
        x: &Given,
        [requests, tokens]: [u64; 2],
    ) -> Result<IndexList, Mismatch> {
        let width = match x.shape[..] {
            [r, t, width] if [r, t] == [requests, tokens] => width,
            [r, width] if r == requests && tokens == 1 => width,
            _ if tokens > 1 => {
                return Err(x.misshapen(format!("({requests}, {tokens}, entries)")));
            }
            _ => return Err(x.misshapen(format!("({requests}, entries)"))),
        };
        let of_lists = x.numbers == super::Numbers::Known(Element::I32);
        let pitch = of_lists.then(|| pitch([requests, tokens, width], &x.strides)).flatten();
        let preparation = match pitch {
            Some(_) => Preparation::AsGiven,
            None => Preparation::Integers,
        };
        self.add(Slot::Segment(n, SegmentSlot::Indices), x, preparation);
        Ok(IndexList { width, pitch: pitch.unwrap_or(width) })
    }

    /// The problem of a builder, whose errors have the caller's names.
    pub fn problem(&self, builder: ProblemBuilder) -> Result<Problem, Error> {
        let build = builder.build();
        Ok(build.map_err(|error| self.named(error))?)
    }

    fn named(&self, error: InvalidProblem) -> InvalidProblem {
        let input = self.0.iter().find(|input| input.slot.to_string() == error.subject);
        let subject = input.map_or(error.subject, |input| input.argument.clone());
        InvalidProblem::new(subject, error.rule, error.value)
    }

    pub fn all(self) -> Vec<Input> {
        self.0
    }
}

/// Reads a segment's rows through lists.
pub(super) fn listed(segment: Segment, list: IndexList) -> Segment {
    segment.paged(0).indexed(list.width).list_pitch(list.pitch)
}

/// Entries from one list to the next, if it is the same for all.
fn pitch([requests, tokens, width]: [u64; 3], strides: &[u64]) -> Option<u64> {
    let (unit, outer) = strides.split_last()?;
    if width > 1 && *unit != 1 {
        return None;
    }
    match outer {
        _ if requests.saturating_mul(tokens) <= 1 => Some(width),
        [request] => Some(*request),
        [_, token] if requests == 1 => Some(*token),
        [request, _] if tokens == 1 => Some(*request),
        [request, token] => (*request == tokens.saturating_mul(*token)).then_some(*token),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::pitch;

    #[test]
    fn lists_lie_evenly_or_must_be_copied() {
        assert_eq!(pitch([3, 2, 8], &[16, 8, 1]), Some(8));
        assert_eq!(pitch([3, 2, 8], &[40, 20, 1]), Some(20));
        assert_eq!(pitch([3, 2, 8], &[41, 20, 1]), None);
        assert_eq!(pitch([3, 2, 8], &[32, 16, 2]), None);
        assert_eq!(pitch([3, 1, 8], &[40, 7, 1]), Some(40));
        assert_eq!(pitch([1, 3, 8], &[7, 40, 1]), Some(40));
        assert_eq!(pitch([3, 1, 8], &[40, 1]), Some(40));
        assert_eq!(pitch([1, 1, 8], &[40, 1]), Some(8));
    }
}
