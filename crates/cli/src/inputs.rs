//! Tensors from and to `.npy` and `.safetensors` files.

use cases::{Case, CaseData, Layout, Lengths, Order, Outputs};
use problem::{DType, HostVec, Slot};
use sixwarp::Problem;
use sixwarp::io::{self, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Where tensors come from, if not at random.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Files")]
pub struct FileArgs {
    /// Queries, a .npy file
    #[arg(long, value_name = "FILE", requires_all = ["k", "v"])]
    q: Option<PathBuf>,
    /// Keys, a .npy file
    #[arg(long, value_name = "FILE", requires = "q")]
    k: Option<PathBuf>,
    /// Values, a .npy file
    #[arg(long, value_name = "FILE", requires = "q")]
    v: Option<PathBuf>,
    /// A safetensors file with q, k, v and, where there are some, sinks
    #[arg(long, value_name = "FILE", conflicts_with = "q")]
    tensors: Option<PathBuf>,
}

impl FileArgs {
    /// The case with the shapes of the files, where files are given.
    pub fn shape(&self, mut case: Case) -> Result<Case> {
        let tensors = self.read()?;
        if tensors.is_empty() {
            return Ok(case);
        }
        if case.first.layout != Layout::Batched || case.second.is_some() {
            return Err("tensors from files are one batched segment".into());
        }
        let part = |name: &str| {
            let tensor = tensors.get(name).ok_or_else(|| format!("there is no tensor `{name}`"))?;
            extents(name, tensor, case.order)
        };
        let (q, k, v) = (part("q")?, part("k")?, part("v")?);
        if k[0] != q[0] {
            return Err(format!("k: must have q's batch, {}, but it is {}", q[0], k[0]).into());
        }
        if v[..3] != k[..3] {
            let (wanted, found) = (&k[..3], &v[..3]);
            let rule = "must have k's batch, heads and tokens";
            return Err(format!("v: {rule}, {wanted:?}, but they are {found:?}").into());
        }
        let ([batch, heads, queries, dim], [_, kv_heads, keys, _], [.., value_dim]) = (q, k, v);
        case.dtype = dtype(&tensors["q"])?;
        (case.batch, case.heads, case.kv_heads) = (batch, heads, Some(kv_heads));
        (case.dim, case.value_dim) = (dim, Some(value_dim));
        case.queries = Lengths::Same(queries);
        case.first.keys = Lengths::Same(keys);
        if tensors.contains_key("sinks") {
            case.sinks = Some(cases::Sinks::Random("from a file".to_string()));
        }
        Ok(case)
    }

    /// The case's data with the files' tensors in place of random ones.
    pub fn fill(&self, mut data: CaseData) -> Result<CaseData> {
        for (name, tensor) in self.read()? {
            let slots = [Slot::Q, Slot::K, Slot::V, Slot::Sinks];
            let Some(slot) = slots.into_iter().find(|slot| slot.to_string() == name) else {
                return Err(format!("tensor `{name}` is none of q, k, v, sinks").into());
            };
            let place = data.tensors.get_mut(&slot).ok_or_else(|| format!("{name} is not read"))?;
            let (given, wanted) = (tensor.data.as_ref(), place.as_ref());
            if given.len() != wanted.len() || given.element() != wanted.element() {
                let [wanted, found] =
                    [wanted, given].map(|part| format!("{} {}", part.len(), part.element()));
                return Err(format!("{name}: must hold {wanted}, but it is {found}").into());
            }
            *place = tensor.data;
        }
        Ok(data)
    }

    fn read(&self) -> Result<BTreeMap<String, Tensor>> {
        if let Some(path) = &self.tensors {
            return Ok(io::read_safetensors(path)?.into_iter().collect());
        }
        let files = [("q", &self.q), ("k", &self.k), ("v", &self.v)];
        let given = files.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?)));
        given.map(|(name, path)| Ok((name.to_string(), io::read_npy(path)?))).collect()
    }
}

/// `[batch, heads, tokens, dim]`.
fn extents(name: &str, tensor: &Tensor, order: Order) -> Result<[u64; 4]> {
    let [a, b, c, d] = tensor.shape[..] else {
        return Err(format!("{name}: four dimensions are needed, not {:?}", tensor.shape).into());
    };
    Ok(match order {
        Order::Bhsd => [a, b, c, d],
        Order::Bshd => [a, c, b, d],
    })
}

fn dtype(tensor: &Tensor) -> Result<DType> {
    Ok(tensor.data.as_ref().dtype().ok_or("q: f32, f16 or bf16 is needed")?)
}

/// Writes results: `out` to `.npy`, `out` and `lse` to `.safetensors`.
pub fn write(path: &Path, case: &Case, problem: &Problem, outputs: &Outputs) -> Result<()> {
    let [b, h, t, d] = problem.out.shape;
    if case.gap > 0 {
        return Err("--out: rows with gaps between them are not written to files".into());
    }
    let shape = match case.order {
        Order::Bhsd => vec![b, h, t, d],
        Order::Bshd => vec![b, t, h, d],
    };
    let out = Tensor::new(shape, outputs.out.clone())?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => io::write_npy(path, &out)?,
        Some("safetensors") => {
            let mut tensors = vec![("out".to_string(), out)];
            if let Some(lse) = &outputs.lse {
                let lse = Tensor::new(vec![b, h, t], HostVec::F32(lse.clone()))?;
                tensors.push(("lse".to_string(), lse));
            }
            io::write_safetensors(path, &tensors.into_iter().collect())?;
        }
        _ => return Err(format!("{}: .npy or .safetensors is written", path.display()).into()),
    }
    Ok(())
}
