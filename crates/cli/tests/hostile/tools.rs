//! Which programs are run, and how they are fetched.

use super::*;
use std::time::Duration;

/// The release that is fetched.
const VERSION: &str = "13.4.92";
const SAYS_RELEASE: &str = "echo Cuda compilation tools, release 13.4, V13.4.92";

/// `sixwarp warm` with its cache in `scratch`, on a search path without NVIDIA's tools.
fn warm(scratch: &Scratch) -> Command {
    let mut command = sixwarp(&["warm"]);
    let has_tool = |directory: &PathBuf| {
        ["ptxas", "nvdisasm", "cuobjdump"].iter().any(|tool| directory.join(tool).exists())
    };
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::split_paths(&path).filter(|directory| !has_tool(directory));
    command.env("PATH", std::env::join_paths(path).unwrap());
    command.env("SIXWARP_CACHE", scratch.file("cache"));
    command
}

/// A Python that answers what is asked of it as pip and zipfile would, and fetches from nowhere.
fn python(scratch: &Scratch, in_download: &str) -> PathBuf {
    let lines = format!(
        r#"case "$2" in
-m) while [ $# -gt 0 ]; do [ "$1" = --dest ] && dest=$2; shift; done
    mkdir -p "$dest"; echo wheel > "$dest/a.whl"
    {in_download} ;;
-c) printf '#!/bin/sh\n{SAYS_RELEASE}\n' > "$6" ;;
esac"#
    );
    script(&scratch.file("python"), &lines)
}

fn tool_in_cache(scratch: &Scratch, tool: &str) -> PathBuf {
    scratch.file("cache").join("toolchain").join(VERSION).join(tool)
}

#[test]
fn modules_of_the_current_folder_are_not_run() {
    let scratch = scratch();
    let folder = scratch.file("folder");
    fs::create_dir(&folder).unwrap();
    let code = format!("open({:?}, 'w')", scratch.file("ran"));
    for module in ["pip", "zipfile", "shutil", "sitecustomize"] {
        fs::write(folder.join(format!("{module}.py")), &code).unwrap();
    }
    let said = failure(
        warm(&scratch)
            .current_dir(&folder)
            .env("PYTHONPATH", &folder)
            .env("PIP_NO_INDEX", "1")
            .env_remove("PIP_FIND_LINKS"),
    );
    assert!(said.contains("pip download nvidia-cuda-nvcc==13.4.92"), "{said}");
    assert!(said.contains("No matching distribution"), "{said}");
    assert!(!scratch.file("ran").exists());
}

#[test]
fn programs_of_the_current_folder_are_not_run() {
    let scratch = scratch();
    let ran = format!("touch {:?}; {SAYS_RELEASE}", scratch.file("ran"));
    for program in ["ptxas", "nvdisasm", "cuobjdump", "python3"] {
        script(&scratch.file("folder").join(program), &ran);
    }
    let mut command = warm(&scratch);
    command.current_dir(scratch.file("folder"));
    let said = failure(command.env("PATH", ".:").env_remove("SIXWARP_PYTHON"));
    assert!(said.contains("there is no python3 on PATH"), "{said}");
    assert!(!scratch.file("ran").exists());
}

#[test]
fn a_wheel_of_another_hash_is_not_unpacked() {
    let scratch = scratch();
    let wheels = scratch.file("wheels");
    fs::create_dir(&wheels).unwrap();
    let make = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n \
                name = 'nvidia_cuda_nvcc-13.4.92.dist-info'\n \
                wheel.writestr(name + '/METADATA', 'Metadata-Version: 2.1\\nName: nvidia-cuda-nvcc\\nVersion: 13.4.92\\n')\n \
                wheel.writestr(name + '/WHEEL', 'Wheel-Version: 1.0\\nTag: py3-none-any\\n')\n \
                wheel.writestr(name + '/RECORD', '')\n \
                wheel.writestr('nvidia/bin/ptxas', sys.argv[2])";
    let ptxas = format!("#!/bin/sh\ntouch {:?}\n{SAYS_RELEASE}\n", scratch.file("ran"));
    let wheel = wheels.join("nvidia_cuda_nvcc-13.4.92-py3-none-any.whl");
    let mut python = Command::new("python3");
    assert!(python.args(["-I", "-c", make]).arg(wheel).arg(ptxas).status().unwrap().success());
    let said = failure(warm(&scratch).env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &wheels));
    assert!(said.contains("DO NOT MATCH THE HASHES"), "{said}");
    assert!(said.contains("SIXWARP_PTXAS"), "{said}");
    assert!(!tool_in_cache(&scratch, "ptxas").exists() && !scratch.file("ran").exists());
}

#[test]
fn a_fetch_after_one_that_was_killed_works_at_once() {
    let scratch = scratch();
    let begun = scratch.file("begun");
    // What the killed one started goes on, as pip would.
    let slow = format!(
        "if mkdir {begun:?} 2>/dev/null; then for i in 1 2 3 4 5 6 7 8; do sleep 0.1; \
         echo x > \"$dest/$i.whl\"; done; fi"
    );
    let python = python(&scratch, &slow);
    let mut killed = warm(&scratch).env("SIXWARP_PYTHON", &python).spawn().unwrap();
    while !begun.exists() {
        assert!(killed.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let said = success(warm(&scratch).env("SIXWARP_PYTHON", &python));
    let ptxas = tool_in_cache(&scratch, "ptxas");
    assert!(said.contains(&format!("ptxas: {}\n", ptxas.display())), "{said}");
    assert!(ptxas.is_file());
}

#[test]
fn a_tool_in_the_cache_that_does_not_run_is_replaced() {
    let scratch = scratch();
    let python = python(&scratch, "");
    let warm = || success(warm(&scratch).env("SIXWARP_PYTHON", &python));
    warm();
    let ptxas = tool_in_cache(&scratch, "ptxas");
    let whole = fs::read(&ptxas).unwrap();
    let spoil: [&dyn Fn(); 6] = [
        &|| fs::write(&ptxas, "").unwrap(),
        &|| fs::write(&ptxas, "\x7fELF").unwrap(),
        &|| fs::write(&ptxas, "#!/bin/sh\nexit 1\n").unwrap(),
        &|| fs::write(&ptxas, "#!/bin/sh\necho release 12.0, V12.0.1\n").unwrap(),
        &|| fs::set_permissions(&ptxas, Permissions::from_mode(0o644)).unwrap(),
        &|| {
            leave_to_others(&ptxas);
        },
    ];
    for (i, spoil) in spoil.into_iter().enumerate() {
        spoil();
        warm();
        assert_eq!(fs::read(&ptxas).unwrap(), whole, "{i}");
        assert_eq!(fs::metadata(&ptxas).unwrap().permissions().mode() & 0o777, 0o755, "{i}");
    }
    // One that runs is left alone.
    fs::write(&ptxas, format!("{}#", text(&whole))).unwrap();
    warm();
    assert_ne!(fs::read(&ptxas).unwrap(), whole);
}

#[test]
fn what_is_fetched_and_does_not_run_is_not_kept() {
    let scratch = scratch();
    let python = script(
        &scratch.file("python"),
        "case \"$2\" in -m) while [ $# -gt 0 ]; do [ \"$1\" = --dest ] && dest=$2; shift; done\n\
         mkdir -p \"$dest\"; echo > \"$dest/a.whl\" ;; -c) echo > \"$6\" ;; esac",
    );
    let said = failure(warm(&scratch).env("SIXWARP_PYTHON", python));
    assert!(said.contains("the ptxas of PyPI does not say here that it is 13.4"), "{said}");
    let left = fs::read_dir(tool_in_cache(&scratch, "ptxas").parent().unwrap()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["ptxas.lock"]);
}

#[test]
fn the_cache_of_another_user_is_refused() {
    for spoilt in ["cache", "cache/toolchain", "cache/toolchain/13.4.92"] {
        let scratch = scratch();
        let ran = format!("touch {:?}; {SAYS_RELEASE}", scratch.file("ran"));
        for tool in ["ptxas", "nvdisasm", "cuobjdump"] {
            script(&tool_in_cache(&scratch, tool), &ran);
        }
        let why = leave_to_others(&scratch.file(spoilt));
        let said = failure(&mut warm(&scratch));
        let named = format!("{}: {why}", scratch.file(spoilt).display());
        assert!(said.contains(&named), "{said}");
        assert!(said.contains("set SIXWARP_CACHE to a directory of your own"), "{said}");
        assert!(!scratch.file("ran").exists(), "{spoilt}");
    }
}

#[test]
fn doctor_runs_nothing_of_a_cache_of_others_and_says_so() {
    let scratch = scratch();
    let ran = format!("touch {:?}; {SAYS_RELEASE}", scratch.file("ran"));
    script(&tool_in_cache(&scratch, "ptxas"), &ran);
    let why = leave_to_others(&scratch.file("cache"));
    let mut doctor = sixwarp(&["doctor"]);
    let said = success(doctor.env("SIXWARP_CACHE", scratch.file("cache")).env("PATH", ""));
    assert!(said.contains(&format!("nothing is kept ({}: {why}", scratch.file("cache").display())));
    assert!(!scratch.file("ran").exists());
}

#[test]
fn without_a_home_the_cache_is_a_users_own() {
    let scratch = scratch();
    let temporary = scratch.file("tmp");
    fs::create_dir(&temporary).unwrap();
    fs::set_permissions(&temporary, Permissions::from_mode(0o1777)).unwrap();
    let ran = format!("touch {:?}; {SAYS_RELEASE}", scratch.file("ran"));
    // Where it used to be, and where it is now.
    let own = format!("sixwarp-{}", files::user());
    for name in ["sixwarp", &own] {
        script(&temporary.join(name).join("toolchain").join(VERSION).join("ptxas"), &ran);
        leave_to_others(&temporary.join(name));
    }
    let mut command = warm(&scratch);
    command.env_remove("HOME").env_remove("SIXWARP_CACHE").env("TMPDIR", &temporary);
    let said = failure(&mut command);
    assert!(said.contains(&format!("{}: ", temporary.join(own).display())), "{said}");
    assert!(!scratch.file("ran").exists());
}

#[test]
fn temporary_files_are_not_put_where_everybody_can_replace_them() {
    let scratch = scratch();
    let temporary = scratch.file("tmp");
    fs::create_dir(&temporary).unwrap();
    fs::set_permissions(&temporary, Permissions::from_mode(0o777)).unwrap();
    let ptxas = script(&scratch.file("ptxas"), &format!("touch {:?}", scratch.file("ran")));
    let report = ["ptx", "--report", "--dim", "64", "--queries", "64", "--keys", "64"];
    let mut command = sixwarp(&report);
    let said = failure(command.env("TMPDIR", &temporary).env("SIXWARP_PTXAS", ptxas));
    assert!(said.contains(&format!("{}: every user can replace", temporary.display())), "{said}");
    assert!(said.contains("set TMPDIR to a directory of your own"), "{said}");
    assert!(!scratch.file("ran").exists());
}
