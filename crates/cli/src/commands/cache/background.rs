//! `-d`: the server in the background.
//!
//! The process that the user starts runs the same command line again, with [`FLAG`], in a session
//! of its own, and waits until that process listens or fails: so the exit code says whether there is
//! a server, and there is no fork of a process with threads.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::failure::{FAILED, Failure, Result};
use crate::output;

/// Marks the process in the background.
const FLAG: &str = "--in-background";

/// Starts the server in the background; returns when it listens.
pub fn start() -> Result<()> {
    let failed =
        |error: std::io::Error| Failure::system("could not start in the background", &error);
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(std::env::args_os().skip(1)).arg(FLAG);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut greeting = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut greeting).map_err(failed)?;
    }
    match greeting.trim_end() {
        // It has said why on standard error.
        "" => {
            let code = child.wait().map_err(failed)?.code();
            let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED);
            Err(Failure { message: String::new(), code })
        }
        greeting => output::line(greeting),
    }
}

/// Leaves the session of the terminal, so that its end is not that of this process.
pub fn leave_session() -> Result<()> {
    match setsid() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::system("could not begin a session", &error.into())),
    }
}

/// Leaves the standard streams of the process that started this one; with `keeps_log`, all but
/// standard error.
pub fn leave_streams(keeps_log: bool) -> Result<()> {
    let leave = || {
        let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        dup2_stdin(&nothing)?;
        dup2_stdout(&nothing)?;
        if keeps_log { Ok(()) } else { dup2_stderr(&nothing) }
    };
    leave().map_err(|error: rustix::io::Errno| {
        Failure::system("could not leave the standard streams", &error.into())
    })
}
