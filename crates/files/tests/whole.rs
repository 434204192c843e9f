//! Files are written whole or not at all.

use sixwarp_files::{Scratch, remove_abandoned, write};
use std::fs::{self, File, read};
use std::path::Path;
use std::time::{Duration, SystemTime};

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "lock");
    names.sort();
    names
}

#[test]
fn a_file_is_made_and_replaced_and_nothing_is_left_beside_it() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.file("a");
    for bytes in [&b"first"[..], b"second, which is longer", b""] {
        write(&path, bytes).unwrap();
        assert_eq!(read(&path).unwrap(), bytes);
    }
    let long = scratch.file(&"n".repeat(255));
    write(&long, b"x").unwrap();
    assert_eq!(names(scratch.path()), ["a", &"n".repeat(255)]);
}

#[test]
fn what_cannot_be_written_is_named_and_leaves_nothing() {
    let scratch = Scratch::new().unwrap();
    let missing = scratch.file("missing/a");
    let error = write(&missing, b"x").unwrap_err();
    assert_eq!(error.path(), missing);
    assert!(error.to_string().starts_with(&format!("{}: ", missing.display())), "{error}");
    fs::create_dir(scratch.file("directory")).unwrap();
    assert!(write(scratch.file("directory"), b"x").is_err());
    assert!(write("", b"x").is_err());
    assert_eq!(names(scratch.path()), ["directory"]);
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_stay_and_what_they_lead_to_is_written() {
        let scratch = Scratch::new().unwrap();
        fs::create_dir(scratch.file("below")).unwrap();
        symlink("below/there", scratch.file("to")).unwrap();
        symlink("to", scratch.file("link")).unwrap();
        // It leads nowhere yet, then to a file.
        for bytes in [b"1", b"2"] {
            write(scratch.file("link"), bytes).unwrap();
            assert_eq!(read(scratch.file("below/there")).unwrap(), bytes);
            assert!(scratch.file("link").is_symlink() && scratch.file("to").is_symlink());
        }
        symlink("circle", scratch.file("circle")).unwrap();
        assert!(write(scratch.file("circle"), b"x").is_err());
        assert_eq!(names(&scratch.file("below")), ["there"]);
    }

    #[test]
    fn permissions_stay_as_they_are() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.file("a");
        write(&path, b"x").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        write(&path, b"y").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_written_as_they_are() {
        write("/dev/null", b"x").unwrap();
        let error = write("/dev/full", b"x").unwrap_err().to_string();
        assert!(error.starts_with("/dev/full: "), "{error}");
        assert!(!fs::metadata("/dev/full").unwrap().is_file());
    }
}

#[test]
fn parts_that_were_left_long_ago_are_removed() {
    let scratch = Scratch::new().unwrap();
    let old = SystemTime::now() - Duration::from_secs(2 * 3600);
    for (name, time) in [
        (".sixwarp-0.part", old),
        (".sixwarp-1.part", SystemTime::now()),
        ("sixwarp-2.part", old),
        (".sixwarp-3", old),
    ] {
        File::create(scratch.file(name)).unwrap().set_modified(time).unwrap();
    }
    remove_abandoned(scratch.path());
    assert_eq!(names(scratch.path()), [".sixwarp-1.part", ".sixwarp-3", "sixwarp-2.part"]);
    remove_abandoned(&scratch.file("missing"));
}
