use super::vector::scale_add_program;
use super::{Outcome, buffer, kernels, launch, program, same, words};
use program::{Access, Argument, BufferId, Program};
use sixwarp_cuda::{CubinCache, Device, Error, Origin};
use std::sync::Arc;

/// A module with a mistake on a known PTX line, emitted from a known Rust line.
pub fn errors_name_lines(device: &Device) -> Outcome {
    let broken = kernels::VECTOR
        .replace(".visible .entry", ".file 1 \"src/emitter.rs\"\n.visible .entry")
        .replace("\tfma.rn.f32", "\t.loc 1 321 9\n\tfma.rn.f32")
        .replace("%f3, %f0, %f1, %f2", "%f3, %f0, %f1, %rd2");
    let program = Program { module: Arc::new(ptx::parse(&broken)?), ..scale_add_program() };
    match device.load(&program) {
        Err(Error::Jit { errors, log }) => {
            let named = errors.iter().any(|e| {
                e.line.is_some() && e.source.as_ref().is_some_and(|source| source.line == 321)
            });
            if named { Ok(errors[0].to_string()) } else { Err(format!("no line in: {log}").into()) }
        }
        Err(other) => Err(format!("not a compiler error: {other}").into()),
        Ok(_) => Err("a wrong kernel was accepted".into()),
    }
}

/// Compiled, then from the cache, then compiled again after damage. Where no `ptxas` is installed the
/// driver compiles each time, and keeps a cache of its own.
pub fn cache(device: &Device) -> Outcome {
    let name = format!("sixwarp-smoke-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let outcome = cache_at(device, &directory);
    // There is no directory where nothing was kept.
    let _ = std::fs::remove_dir_all(&directory);
    outcome
}

fn cache_at(device: &Device, directory: &std::path::Path) -> Outcome {
    let program = scale_add_program();
    let load = || device.clone().with_cache(CubinCache::at(directory)).load(&program);
    let first = load()?;
    let second = load()?;
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry?.path();
        let mut bytes = std::fs::read(&path)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes)?;
    }
    let third = load()?;
    let origins = [first.origin(), second.origin(), third.origin()];
    if origins == [Origin::CompiledInDriver; 3] {
        return Ok(format!("no ptxas here; the driver compiles in {:.1?}", first.load_time()));
    }
    if origins != [Origin::Compiled, Origin::Cache, Origin::Compiled] {
        return Err(format!("{origins:?}").into());
    }
    let (cold, warm) = (first.load_time(), second.load_time());
    Ok(format!("compiled in {cold:.1?}, from the cache in {warm:.1?}, damage noticed"))
}

/// Code for `sm_90a`, by way of the cache's compiler; refused by name on other devices.
pub fn accelerated(device: &Device) -> Outcome {
    let out = buffer("out", 4 * 128, Access::Write);
    let launch = launch("warpgroup", 1, 128, vec![Argument::Buffer(BufferId(0), 0)]);
    let program = program(kernels::ACCELERATED, vec![out], vec![launch]);
    if device.info().compute_capability != (9, 0) {
        return match device.load(&program) {
            Err(error @ Error::WrongTarget { .. }) => Ok(format!("refused: {error}")),
            _ => Err("code for sm_90a was not refused".into()),
        };
    }
    let device = device.clone().with_cache(CubinCache::none());
    let origin = device.load(&program)?.origin();
    let mut buffers = [vec![0xFF; 4 * 128]];
    device.run_host(&program, &mut buffers)?;
    same("out", &words(&buffers[0]), &(0..128).collect::<Vec<u32>>())?;
    Ok(format!("{origin:?}"))
}
