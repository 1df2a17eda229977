//! `-u`: a server that root starts runs as another user.

use std::ffi::CString;

use nix::unistd::{User, geteuid, initgroups, setgid, setuid};

use crate::failure::{Failure, Result};

/// Makes this process one of user `name`, if it is one of root; otherwise it has no effect, as in
/// memcached. Call it before threads start and files are opened.
pub fn become_user(name: &str) -> Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let failed =
        |error: nix::Error| Failure::system(format!("could not become user {name}"), &error.into());
    let found = User::from_name(name).map_err(failed)?;
    let user = found.ok_or_else(|| Failure::usage(format!("-u: there is no user {name:?}")))?;
    let name = CString::new(name).map_err(|_| Failure::usage("-u: a name has no zero byte"))?;
    initgroups(&name, user.gid).map_err(failed)?;
    setgid(user.gid).map_err(failed)?;
    setuid(user.uid).map_err(failed)
}
