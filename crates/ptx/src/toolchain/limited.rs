//! Programs that may hang.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The most that is read of what a program prints.
const MOST_BYTES: u64 = 64 << 10;

/// What a program prints (64 KiB at most), if it stops printing within `limit`; then it is ended.
pub(super) fn output_within(mut command: Command, limit: Duration) -> io::Result<Vec<u8>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let output = printed(&mut child).recv_timeout(limit);
    // It may be gone already, which is an error that tells nothing.
    let _ = child.kill();
    child.wait()?;
    output.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))
}

/// A thread reads: a child of the child may keep the pipe open after both are ended.
fn printed(child: &mut Child) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let stdout = child.stdout.take();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.map(|out| out.take(MOST_BYTES).read_to_end(&mut bytes));
        // Nobody may be waiting any more.
        let _ = sender.send(bytes);
    });
    receiver
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> io::Result<Vec<u8>> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        output_within(command, limit)
    }

    #[test]
    fn what_a_program_prints_is_read() {
        let long = Duration::from_secs(60);
        assert_eq!(shell("echo release 13.4,", long).unwrap(), b"release 13.4,\n");
        assert_eq!(shell("exit 3", long).unwrap(), b"");
        // It has said all, or more than enough, and is not waited for.
        assert_eq!(shell("echo said; exec >&-; sleep 5", long).unwrap(), b"said\n");
        assert_eq!(shell("yes", long).unwrap().len() as u64, MOST_BYTES);
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let short = Duration::from_millis(50);
        for script in ["sleep 5", "echo part; sleep 5", "sleep 5 & wait"] {
            let error = shell(script, short).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{script}");
        }
    }
}
