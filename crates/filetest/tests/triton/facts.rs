use filetest::ElementKind;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// What `tests/triton/compile.py` says about a kernel.
#[derive(Deserialize)]
pub struct Facts {
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub module: Option<Arc<ptx::Module>>,
    pub kernel: String,
    pub shared: u32,
    pub threads: u32,
    pub cluster: [u32; 3],
    pub params: Vec<Param>,
    pub tensor_maps: HashMap<String, Map>,
    pub constants: HashMap<String, serde_json::Value>,
    pub global_scratch: u64,
}

#[derive(Deserialize)]
pub struct Param {
    pub name: String,
    pub kind: String,
    #[serde(rename = "type")]
    pub ty: String,
}

#[derive(Deserialize)]
pub struct Map {
    pub swizzle: u32,
    pub block_size: Vec<u32>,
}

impl Facts {
    /// A compile-time number.
    pub fn constant(&self, name: &str) -> u64 {
        self.constants[name].as_u64().unwrap_or_else(|| panic!("{}: {name}", self.name))
    }

    /// The element type of the tensor behind a parameter.
    pub fn element(&self, name: &str) -> ElementKind {
        let param = self.params.iter().find(|p| p.name == name);
        let ty = &param.unwrap_or_else(|| panic!("{} has no {name}", self.name)).ty;
        let ty = ty.strip_prefix("tensordesc<").unwrap_or(ty).trim_start_matches('*');
        let ty = ty.split(['[', ':']).next().unwrap_or(ty);
        match ty {
            "fp16" => ElementKind::F16,
            "bf16" => ElementKind::Bf16,
            "fp32" => ElementKind::F32,
            "fp8e4nv" => ElementKind::E4m3,
            "fp8e5" => ElementKind::E5m2,
            _ => panic!("{}: element type {ty}", self.name),
        }
    }
}

/// All kernels, compiled when they are not yet.
pub fn all() -> Vec<Facts> {
    let out = ptx::toolchain::cache_directory().join("triton/ptx");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/triton/compile.py");
    let python = std::env::var_os("SIXWARP_PYTHON").unwrap_or_else(|| "python3".into());
    let run = Command::new(&python).arg(&script).arg("--out").arg(&out).status();
    assert!(run.is_ok_and(|status| status.success()), "{} failed", script.display());
    let list = Command::new(python).arg(&script).arg("--list").output().expect("python runs");
    let names = String::from_utf8(list.stdout).expect("names are ASCII");
    names.lines().map(|name| load(&out, name)).collect()
}

fn load(folder: &Path, name: &str) -> Facts {
    let read = |extension: &str| {
        let path = folder.join(format!("{name}.{extension}"));
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let mut facts: Facts = serde_json::from_str(&read("json")).expect("facts of a kernel");
    facts.name = name.to_owned();
    facts.module =
        Some(Arc::new(ptx::parse(&read("ptx")).unwrap_or_else(|e| panic!("{name}: {e}"))));
    facts
}
