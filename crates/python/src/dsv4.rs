//! Calls of `sixwarp::dsv4` on a caller's tensors, as JSON.

use problem::{Description, InvalidProblem};
use serde::{Deserialize, Serialize};
use sixwarp::Error;
use sixwarp::dsv4::{Call, Decode, Input, Prefill, PrefillPages};

/// What is called.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Asked {
    Decode(Box<Decode>),
    Prefill(Box<Prefill>),
    PrefillPages(Box<PrefillPages>),
}

/// A call as a caller reads it.
#[derive(Serialize)]
struct Answer {
    problem: Description,
    inputs: Vec<InputAnswer>,
    out_shape: Vec<u64>,
    out_is_apart: bool,
    per_token: bool,
}

/// A tensor, by the names of its slot and of its argument.
#[derive(Serialize)]
struct InputAnswer {
    slot: String,
    argument: String,
    preparation: &'static str,
    repeat: u64,
}

impl From<Call> for Answer {
    fn from(call: Call) -> Self {
        let input = |input: Input| InputAnswer {
            slot: input.slot.to_string(),
            argument: input.argument,
            preparation: input.preparation.name(),
            repeat: input.repeat,
        };
        Answer {
            problem: call.problem.into(),
            inputs: call.inputs.into_iter().map(input).collect(),
            out_shape: call.out_shape,
            out_is_apart: call.out_is_apart,
            per_token: call.per_token,
        }
    }
}

/// The call that `text` asks for.
pub(crate) fn call(text: &str) -> Result<String, Error> {
    let asked = serde_json::from_str(text)
        .map_err(|error| InvalidProblem::new("tensors", "must be JSON of their form", error))?;
    let call = match asked {
        Asked::Decode(decode) => decode.call(),
        Asked::Prefill(prefill) => prefill.call(),
        Asked::PrefillPages(prefill) => prefill.call(),
    }?;
    serde_json::to_string(&Answer::from(call)).map_err(|error| Error::Device(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECODE: &str = r#"{"decode": {
        "q": {"name": "q", "shape": [2, 3, 4, 512], "strides": [9999, 2048, 512, 1], "numbers": "bf16"},
        "caches": [{
            "pages": {"name": "k_cache", "shape": [5, 16, 1, 584], "strides": [20000, 584, 584, 1], "numbers": "u8"},
            "lists": {"name": "indices", "shape": [2, 3, 64], "strides": [192, 64, 1], "numbers": "torch.int64"},
            "lengths": {"name": "topk_length", "shape": [2, 3], "strides": [3, 1], "numbers": "i32"}
        }],
        "sinks": null, "out": null, "dim": null, "value_dim": 512, "scale": 0.5, "return_lse": true
    }}"#;

    #[test]
    fn a_call_is_answered() {
        let answer: serde_json::Value = serde_json::from_str(&call(DECODE).unwrap()).unwrap();
        assert_eq!(answer["per_token"], true);
        assert_eq!(answer["problem"]["q"]["shape"], serde_json::json!([6, 4, 1, 512]));
        assert_eq!(answer["problem"]["segments"][0]["storage"], "MODEL1");
        assert_eq!(answer["problem"]["segments"][0]["page_bytes"], 20000);
        let inputs = answer["inputs"].as_array().unwrap().iter();
        let how = inputs.map(|x| format!("{} {} {}", x["slot"], x["argument"], x["preparation"]));
        let how: Vec<_> = how.map(|x| x.replace('"', "")).collect();
        let lists = "indices indices integers";
        let wanted = ["q q contiguous", "k k_cache given", lists, "seqused_k topk_length given"];
        assert_eq!(how, wanted);
    }

    /// Every number of a request in turn becomes another, and every list is cut short: an answer or an error, no panic.
    #[test]
    fn nonsense_is_no_panic() {
        const PAGES: &str = r#"{"prefill_pages": {
            "q": {"name": "q", "shape": [5, 4, 512], "strides": [2048, 512, 1], "numbers": "bf16"},
            "cu_seqlens": {"name": "cu_seqlens", "shape": [3], "strides": [1], "numbers": "i32"},
            "positions": {"name": "positions", "shape": [2], "strides": [1], "numbers": "i32"},
            "lengths": {"name": "lengths", "shape": [2], "strides": [1], "numbers": "i32"},
            "window": {"name": "window", "shape": [5, 9344], "strides": [9792, 1], "numbers": "u8"},
            "window_table": {"name": "window_table", "shape": [2, 7], "strides": [7, 1], "numbers": "i32"},
            "compressed": {"name": "compressed", "shape": [5, 8, 512], "strides": [4096, 512, 1], "numbers": "bf16"},
            "page_table": {"name": "page_table", "shape": [2, 1], "strides": [1, 1], "numbers": "i32"},
            "page_rows": 16, "compressed_page_rows": 8, "longest": 5
        }}"#;
        for good in [DECODE, PAGES] {
            call(good).unwrap();
            let digit = |c: char| c.is_ascii_digit();
            let starts = good.char_indices().filter(|(at, c)| {
                digit(*c) && !good[..*at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            });
            for (at, _) in starts {
                let rest = good[at..].trim_start_matches(digit);
                for other in ["0", "1", "3", "9223372036854775808", "18446744073709551615", "1, 1"]
                {
                    let _ = call(&format!("{}{other}{rest}", &good[..at]));
                }
                let _ = call(&format!("{}{}", &good[..at], rest.trim_start_matches([',', ' '])));
            }
        }
    }

    #[test]
    fn mistakes_have_the_callers_names() {
        let error = |from: &str, to: &str| call(&DECODE.replace(from, to)).unwrap_err().to_string();
        assert_eq!(
            error("[2, 3],", "[2, 4],"),
            "topk_length has shape (2, 4): (2,) or (2, 3) is needed"
        );
        assert_eq!(
            error("1, 584]", "1, 500]"),
            "k_cache has shape (5, 16, 1, 500): (pages, rows, 1, row bytes) with rows of 584, 656, 528, 288 bytes is \
             needed"
        );
        let width = error("3, 4, 512]", "3, 4, 576]");
        assert!(width.starts_with("k_cache: must have q's dim"), "{width}");
        assert!(error("\"lists\"", "\"list\"").contains("unknown field `list`"));
    }
}
