//! Directories for one piece of work.

use sixwarp_files::Scratch;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

fn count(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter(|name| name.to_str().unwrap().starts_with("sixwarp-scratch-")).count()
}

/// What a process that was killed leaves: a directory whose lock nobody holds.
fn leave_behind(place: &Path) -> std::path::PathBuf {
    let path = place.join("sixwarp-scratch-left");
    fs::create_dir_all(path.join("wheels")).unwrap();
    fs::write(path.join("wheels/half"), "x").unwrap();
    File::create(path.join("lock")).unwrap();
    path
}

#[test]
fn each_has_its_own_and_it_goes_with_it() {
    let place = Scratch::new().unwrap();
    let (a, b) = (Scratch::within(place.path()).unwrap(), Scratch::within(place.path()).unwrap());
    assert_ne!(a.path(), b.path());
    fs::write(a.file("x"), "a").unwrap();
    fs::write(b.file("x"), "b").unwrap();
    assert_eq!(fs::read(a.file("x")).unwrap(), b"a");
    drop(a);
    assert_eq!(count(place.path()), 1);
    drop(b);
    assert_eq!(count(place.path()), 0);
}

#[test]
fn what_was_left_behind_is_removed_and_what_is_in_use_is_not() {
    let place = Scratch::new().unwrap();
    let used = Scratch::within(place.path()).unwrap();
    let left = leave_behind(place.path());
    let next = Scratch::within(place.path()).unwrap();
    assert!(!left.exists() && used.path().exists() && next.path().exists());
}

#[test]
fn one_without_a_lock_is_left_for_an_hour() {
    let place = Scratch::new().unwrap();
    let left = leave_behind(place.path());
    fs::remove_file(left.join("lock")).unwrap();
    drop(Scratch::within(place.path()).unwrap());
    assert!(left.exists(), "its owner may be about to lock it");
    let old = SystemTime::now() - Duration::from_secs(2 * 3600);
    File::open(&left).unwrap().set_modified(old).unwrap();
    drop(Scratch::within(place.path()).unwrap());
    assert!(!left.exists());
}

#[test]
fn processes_that_sweep_at_once_take_nothing_from_each_other() {
    let place = Scratch::new().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let scratch = Scratch::within(place.path()).unwrap();
                    fs::write(scratch.file("x"), "x").unwrap();
                    assert_eq!(fs::read(scratch.file("x")).unwrap(), b"x");
                }
            });
        }
    });
    assert_eq!(count(place.path()), 0);
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn nobody_else_can_look_into_it() {
        let scratch = Scratch::new().unwrap();
        assert_eq!(fs::metadata(scratch.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn links_and_directories_of_others_are_not_touched() {
        let place = Scratch::new().unwrap();
        let far = leave_behind(&place.file("far"));
        symlink(&far, place.file("sixwarp-scratch-link")).unwrap();
        drop(Scratch::within(place.path()).unwrap());
        assert!(
            far.join("wheels/half").exists() && place.file("sixwarp-scratch-link").is_symlink()
        );
    }
}
