//! PID 1 of a machine: sets up what the machine sees, reaps what is orphaned, starts and stops programs.
//!
//! Killing this one process ends every process of the machine, and with the last of them the kernel takes back its
//! mounts, network namespaces, links and firewall rules. That is what makes a testbed leave nothing.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader},
    os::unix::{
        net::{UnixListener, UnixStream},
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        signal::{Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, sethostname, setsid},
};

use super::{
    PATH, RECORD, SOCKET,
    process::ProcessId,
    protocol::{self, Program, ProgramStatus, Request, Response},
};

/// Folders that kubelet, containerd and CNI write to whatever their configuration says. Each machine has its own.
const OWN_FOLDERS: [&str; 2] = ["/var/lib", "/var/log"];

/// Leaves the caller's namespaces and starts PID 1 of a new machine as a child. The child outlives the caller.
pub fn boot(name: &str, dir: &Path) -> io::Result<()> {
    let log = OpenOptions::new().create(true).append(true).open(dir.join("init.log"))?;
    unshare(
        CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC,
    )?;
    Command::new(std::env::current_exe()?)
        .args(["machine", "init", name])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    Ok(())
}

/// The life of PID 1. Returns only when the machine cannot be set up.
pub fn run(name: &str, dir: &Path) -> io::Result<()> {
    setsid()?;
    // Before anything else, and through the old /proc: from here on this machine can be found and ended, even if
    // whoever started it is gone.
    let own = serde_json::to_vec(&ProcessId::own()?)?;
    fs::write(dir.join("record.tmp"), own)?;
    fs::rename(dir.join("record.tmp"), dir.join(RECORD))?;

    sethostname(name)?;
    furnish(dir)?;
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).env("PATH", PATH).status()?;
    if !status.success() {
        return Err(io::Error::other("the loopback interface did not come up"));
    }
    let listener = UnixListener::bind(dir.join(SOCKET))?;
    let children = Arc::new(Children::default());
    let reaper = Arc::clone(&children);
    thread::spawn(move || reaper.reap());
    let keeper = Arc::clone(&children);
    thread::spawn(move || keeper.keep());
    // One connection that breaks is no reason to end the machine.
    for stream in listener.incoming().flatten() {
        let (children, dir) = (Arc::clone(&children), dir.to_owned());
        thread::spawn(move || {
            if let Err(error) = answer(stream, &children, &dir) {
                eprintln!("a request was not answered: {error}");
            }
        });
    }
    Err(io::Error::other("nobody can ask this machine any more"))
}

/// Gives the machine its own view of the files that would otherwise be shared with this one and the other nodes.
fn furnish(dir: &Path) -> io::Result<()> {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none)?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), Some("mode=755"))?;
    for folder in OWN_FOLDERS {
        let own = dir.join("root").join(folder.trim_start_matches('/'));
        fs::create_dir_all(&own)?;
        if dir.starts_with(folder) {
            // The testbed's own folder must stay visible at its place below the new one.
            let state = super::state_root(dir);
            let inside = own.join(state.strip_prefix(folder).unwrap_or(state));
            fs::create_dir_all(&inside)?;
            mount(Some(state), &inside, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
        }
        mount(Some(&own), folder, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
    }
    Ok(())
}

fn answer(stream: UnixStream, children: &Children, dir: &Path) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let response = match serde_json::from_str::<Request>(&line)? {
        Request::Start(program) => match children.start(&program, dir) {
            Ok(()) => Response::Done,
            Err(error) => Response::Refused(format!("{} did not start: {error}", program.argv.join(" "))),
        },
        Request::Stop { name, signal, patience } => match children.stop(&name, signal, patience) {
            Ok(()) => Response::Done,
            Err(error) => Response::Refused(format!("{name} did not stop: {error}")),
        },
        Request::List => Response::Programs(children.list()),
    };
    let mut stream = stream;
    protocol::write_line(&mut stream, &response)
}

/// The programs of the machine and how they ended.
#[derive(Default)]
struct Children {
    programs: Mutex<BTreeMap<String, Child>>,
    changed: Condvar,
}

struct Child {
    program: Program,
    pid: i32,
    ended: Option<String>,
    log: PathBuf,
    restarts: u32,
}

impl Children {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Child>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, program: &Program, dir: &Path) -> io::Result<()> {
        // Held across the spawn: the reaper must find the program in the list when it ends at once.
        let mut programs = self.lock();
        if programs.get(&program.name).is_some_and(|child| child.ended.is_none()) {
            return Ok(());
        }
        fs::create_dir_all(dir.join("log"))?;
        let log = dir.join("log").join(format!("{}.log", program.name));
        let pid = spawn(program, &log)?;
        let child = Child { program: program.clone(), pid, ended: None, log, restarts: 0 };
        programs.insert(program.name.clone(), child);
        self.changed.notify_all();
        Ok(())
    }

    fn stop(&self, name: &str, signal: i32, patience: Duration) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        let mut programs = self.lock();
        let signal = Signal::try_from(signal)?;
        if let Some(child) = programs.get_mut(name) {
            child.program.keep = false;
            if child.ended.is_none() {
                kill(Pid::from_raw(child.pid), signal)?;
            }
        }
        while programs.get(name).is_some_and(|child| child.ended.is_none()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("it still runs after {patience:?}"),
                ));
            }
            programs = self.changed.wait_timeout(programs, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        programs.remove(name);
        Ok(())
    }

    fn list(&self) -> Vec<ProgramStatus> {
        self.lock()
            .iter()
            .map(|(name, child)| ProgramStatus {
                name: name.clone(),
                pid: child.pid,
                ended: child.ended.clone(),
                restarts: child.restarts,
                log: child.log.clone(),
            })
            .collect()
    }

    /// Waits for any child for ever: for the programs, and for what others orphaned (shims, for one).
    fn reap(&self) {
        loop {
            match waitpid(None::<Pid>, None) {
                Ok(WaitStatus::Exited(pid, code)) => self.note(pid, ExitStatus::from_raw(code << 8)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    self.note(pid, ExitStatus::from_raw(signal as i32));
                }
                Ok(_) | Err(Errno::EINTR) => {}
                // No child at all: look again when one is started, and now and then for orphans.
                Err(_) => {
                    let programs = self.lock();
                    drop(self.changed.wait_timeout(programs, Duration::from_secs(1)));
                }
            }
        }
    }

    fn note(&self, pid: Pid, status: ExitStatus) {
        if let Some(child) = self.lock().values_mut().find(|child| child.pid == pid.as_raw()) {
            child.ended = Some(status.to_string());
        }
        self.changed.notify_all();
    }

    /// Starts again, for ever, what is to be kept and has ended by itself.
    fn keep(&self) {
        loop {
            thread::sleep(Duration::from_millis(500));
            for child in self.lock().values_mut().filter(|child| child.program.keep && child.ended.is_some())
            {
                eprintln!(
                    "{} ended ({}), and is started again",
                    child.program.name,
                    child.ended.take().unwrap_or_default()
                );
                match spawn(&child.program, &child.log) {
                    Ok(pid) => {
                        child.pid = pid;
                        child.restarts += 1;
                    }
                    Err(error) => child.ended = Some(error.to_string()),
                }
            }
            self.changed.notify_all();
        }
    }
}

fn spawn(program: &Program, log: &Path) -> io::Result<i32> {
    let out = File::options().create(true).append(true).open(log)?;
    let (file, arguments) =
        program.argv.split_first().ok_or_else(|| io::Error::other("a program without a file to execute"))?;
    // Asked first: a failed start would be waited for by the standard library, and the reaper may have been there before.
    if !Path::new(file).is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no file {file}")));
    }
    let child = Command::new(file)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/root")
        .envs(&program.env)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        // A signal for one program does not reach the others.
        .process_group(0)
        .spawn()?;
    Ok(child.id().cast_signed())
}
