//! A database server in a separate process, whose memory is watched, and which can be killed and
//! started again with its data.
//!
//! | product | found | an acknowledged write survives |
//! |---|---|---|
//! | `tidekv serve` | beside this binary | a crash of the server (its default) |
//! | `redis-server` | in the path | the same (`appendonly yes`) |
//!
//! Guarantees: the process ends with its [`Database`] and with this process; so it does once it takes
//! [`RESIDENT_BYTES_MAX`], which keeps the machine alive.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tidekv_io::{Clock, SystemClock, threads};

use crate::failure::{Failure, Result};
use crate::machine::kernel;
use crate::machine::memory_group::MemoryGroup;
use crate::subjects::databases::client::{Client, Said};
use crate::subjects::served::ServerProcess;

/// A server with more resident memory is killed.
const RESIDENT_BYTES_MAX: u64 = 4 << 30;

/// The period of looks at a server's memory.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The time limit for a server to listen, which includes reading its logs.
const START_MAX: Duration = Duration::from_secs(180);

/// A database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    TideKv,
    Redis,
}

impl Product {
    /// Its name as a subject.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TideKv => "tidekv:server",
            Self::Redis => "redis",
        }
    }

    /// Its program, if it is installed.
    ///
    /// # Errors
    /// If it is not; the message says where it was searched.
    fn program(self) -> Result<PathBuf> {
        let folders: Vec<PathBuf> = match self {
            Self::TideKv => {
                let own = std::env::current_exe();
                own.iter().filter_map(|own| own.parent()).map(Path::to_owned).collect()
            }
            Self::Redis => {
                std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect()
            }
        };
        let (name, place) = match self {
            Self::TideKv => {
                ("tidekv", "beside this binary (`cargo build --release -p tidekv-cli` makes it)")
            }
            Self::Redis => ("redis-server", "in the path"),
        };
        let found = folders.iter().map(|folder| folder.join(name)).find(|path| is_file(path));
        found.ok_or_else(|| Failure::new(format!("{name} is not {place}")))
    }
}

#[expect(clippy::disallowed_methods, reason = "looks for a program, not for data of a store")]
fn is_file(path: &Path) -> bool {
    path.is_file()
}

/// A place for the data of one product, and how it is started there.
#[derive(Debug)]
pub(crate) struct Home {
    product: Product,
    program: PathBuf,
    memory_bytes: u64,
    directory: PathBuf,
    group: Option<MemoryGroup>,
}

impl Home {
    /// A place in an empty directory for a server with this memory budget, whose process the kernel
    /// bounds to `process_bytes`, page cache included.
    ///
    /// # Errors
    /// If the product is not installed, or the process cannot be bounded.
    pub(crate) fn new(
        product: Product,
        memory_bytes: u64,
        directory: &Path,
        process_bytes: Option<u64>,
    ) -> Result<Self> {
        let name = format!("{}-server", std::process::id());
        let group = process_bytes.map(|bytes| MemoryGroup::new(&name, bytes)).transpose()?;
        let program = product.program()?;
        Ok(Self { product, program, memory_bytes, directory: directory.to_owned(), group })
    }

    pub(crate) fn product(&self) -> Product {
        self.product
    }

    /// Bytes of its files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        kernel::bytes_below(&self.directory)
    }

    /// Processes that the kernel has killed since the beginning, if it bounds them.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        self.group.as_ref().map(MemoryGroup::oom_kills)
    }

    /// Starts the server with the data that is there, and waits until it answers.
    ///
    /// # Errors
    /// If it ends, or does not answer in time.
    pub(crate) fn start(&self) -> Result<Database> {
        let failed = |error: io::Error| Failure::system("could not find a free port", error);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        drop(listener);
        let mut command = self.command();
        command.args(self.arguments(port)).stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = ServerProcess::start(self.product.name(), command, &self.directory)?;
        let watch = Watch::start(process.id())?;
        process.when_served(START_MAX, |_| {
            let mut client = Client::connect(port)?;
            // Redis listens while it reads its log, and answers with an error.
            match client.ask_line("DBSIZE")?.said {
                Said::Integer(_) => Ok(()),
                _ => Err(io::ErrorKind::ResourceBusy.into()),
            }
        })?;
        Ok(Database { watch, process, port })
    }

    /// A command that starts the program in its control group, and ends it with this process.
    fn command(&self) -> Command {
        let mut command = match &self.group {
            None => Command::new("setpriv"),
            Some(group) => {
                let mut command = Command::new("sh");
                let script = "echo $$ > \"$0\" && exec setpriv \"$@\"";
                command.args(["-c", script]).arg(group.entrance());
                command
            }
        };
        command.args(["--pdeathsig", "KILL"]).arg(&self.program);
        command
    }

    fn arguments(&self, port: u16) -> Vec<String> {
        let memory = self.memory_bytes;
        let text = match self.product {
            Product::TideKv => {
                format!("serve --data data --memory {memory} --listen 127.0.0.1:{port}")
            }
            Product::Redis => format!(
                "--port {port} --maxmemory {memory} --appendonly yes --appendfsync everysec"
            ),
        };
        let mut arguments: Vec<String> = text.split(' ').map(str::to_owned).collect();
        if self.product == Product::Redis {
            arguments.extend(["--save".to_owned(), String::new()]);
        }
        arguments
    }
}

/// A running server.
pub(crate) struct Database {
    // It names the process, so it ends first.
    watch: Watch,
    process: ServerProcess,
    port: u16,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Database {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its maximum resident memory since the start or [`Self::forget_peak`].
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.watch.look()
    }

    /// Counts the maximum from now on.
    pub(crate) fn forget_peak(&self) {
        self.watch.forget();
    }

    /// Bytes that it has read from storage.
    pub(crate) fn storage_read_bytes(&self) -> u64 {
        kernel::storage_read_bytes_of(self.process.id())
    }

    /// Whether it has ended by itself, or was killed by the kernel or for its memory.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.ended()?.is_some())
    }

    /// Kills it with `SIGKILL`.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Shuts it down cleanly.
    ///
    /// # Errors
    /// If it does not end in time.
    pub(crate) fn terminate(self) -> Result<()> {
        let Self { watch, process, .. } = self;
        drop(watch);
        process.terminate()
    }
}

/// A thread that looks at the memory of a process.
struct Watch {
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

struct Seen {
    process: u32,
    peak_bytes: Mutex<u64>,
    is_over: AtomicBool,
}

impl Seen {
    fn look(&self) -> u64 {
        let mut peak = self.peak_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        // An ended process has no memory.
        *peak = (*peak).max(kernel::resident_bytes_max_of(self.process));
        *peak
    }
}

impl Watch {
    fn start(process: u32) -> Result<Self> {
        let peak_bytes = Mutex::new(0);
        let seen = Arc::new(Seen { process, peak_bytes, is_over: AtomicBool::new(false) });
        let of_thread = Arc::clone(&seen);
        let body = move || {
            let clock = SystemClock::new();
            while !of_thread.is_over.load(Ordering::Relaxed) {
                if of_thread.look() > RESIDENT_BYTES_MAX
                    && let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw)
                {
                    // It is waited for after this thread, so the number is still its own.
                    let _ = kill_process(process, Signal::KILL);
                }
                clock.sleep(BETWEEN_LOOKS);
            }
        };
        let thread = threads::spawn("memory-watch", body)
            .map_err(|error| Failure::system("could not start a thread", error))?;
        Ok(Self { seen, thread: Some(thread) })
    }

    fn look(&self) -> u64 {
        self.seen.look()
    }

    fn forget(&self) {
        let mut peak = self.seen.peak_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if kernel::reset_resident_bytes_max_of(self.seen.process) {
            *peak = 0;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}
