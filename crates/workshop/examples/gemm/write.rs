//! Writes machine code and launches of all variants, for a process that has its own driver calls.

use crate::{Request, variants};
use program::{Argument, Launch, Program, TensorMap};
use sixwarp_workshop::gemm::{self, Shape};
use std::path::Path;

/// Assembles every variant to `to`, beside `gemm.json`, which says how each is launched.
pub fn write(request: &Request, to: &Path) -> Result<(), String> {
    std::fs::create_dir_all(to).map_err(|why| format!("{}: {why}", to.display()))?;
    let mut entries = Vec::new();
    for (name, config) in variants::all() {
        let program = gemm::program(request.shape, config, request.processors)?;
        program.check().map_err(|why| format!("{name}: {why:?}"))?;
        let code = ptx::toolchain::assemble(&program.module.to_string(), "sm_90a");
        let code = code.map_err(|why| format!("{name}: {why}"))?;
        println!("{name}: {:?} {:?}", code.report, code.warnings);
        let file = format!("{name}.cubin");
        save(&to.join(&file), &code.cubin)?;
        entries.push(entry(name, &file, &program));
    }
    let Shape { m, n, k } = request.shape;
    let text =
        format!("{{\"shape\": [{m}, {n}, {k}], \"variants\": [\n{}\n]}}\n", entries.join(",\n"));
    save(&to.join("gemm.json"), text.as_bytes())
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), String> {
    files::write(path, bytes).map_err(|why| format!("{}: {why}", path.display()))
}

fn entry(name: &str, file: &str, program: &Program) -> String {
    let Launch { kernel, grid, block, cluster, shared_bytes, args, .. } = &program.launches[0];
    let args: Vec<_> = args.iter().map(argument).collect();
    format!(
        "{{\"name\": \"{name}\", \"file\": \"{file}\", \"kernel\": \"{kernel}\", \"grid\": {grid:?}, \
         \"block\": {block:?}, \"cluster\": {cluster:?}, \"shared\": {shared_bytes}, \"args\": [{}]}}",
        args.join(", ")
    )
}

fn argument(argument: &Argument) -> String {
    match argument {
        Argument::U32(value) => format!("{value}"),
        Argument::TensorMap(map) => tensor_map(map),
        other => unreachable!("the GEMM has no {other:?}"),
    }
}

/// The fields that `cuTensorMapEncodeTiled` takes.
fn tensor_map(map: &TensorMap) -> String {
    let (promotion, TensorMap { buffer, dims, strides, box_dims, .. }) =
        (map.l2_promotion as u32, map);
    format!(
        "{{\"buffer\": {}, \"dims\": {dims:?}, \"strides\": {strides:?}, \"box\": {box_dims:?}, \
         \"promotion\": {promotion}}}",
        buffer.0
    )
}
