//! What a child may reach: files by Landlock, the network by an empty network namespace.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::FileType;

use crate::program;

/// What a child, and everything that it starts, may reach.
///
/// # Files
///
/// It may read and execute what is below `read`, and read, execute, change, create and remove what
/// is below `write`, as far as its user may; device files cannot be created. Besides it may always
///
/// - read and execute its program, the interpreter that the first line of a script names, and
///   `/usr`, `/bin`, `/sbin`, `/lib`, `/lib32`, `/lib64`, `/libx32`, `/nix/store`, `/gnu/store`;
/// - read `/etc/ld.so.cache`, `/etc/ld.so.preload`, `/etc/localtime`, `/etc/nsswitch.conf`,
///   `/etc/passwd`, `/etc/group`, `/etc/ssl/certs`, `/etc/ssl/openssl.cnf`, `/etc/pki/tls/certs`,
///   `/etc/pki/ca-trust`, `/etc/ca-certificates`, `/sys/devices/system/cpu`, `/dev/zero`,
///   `/dev/random`, `/dev/urandom`, `/proc/cpuinfo`, `/proc/meminfo`, `/proc/stat` and
///   `/proc/filesystems`; with `network` also `/etc/hosts`, `/etc/host.conf`, `/etc/resolv.conf`,
///   `/etc/gai.conf`, `/etc/services`, `/etc/protocols` and `/run/systemd/resolve`;
/// - read and write `/dev/null`, `/dev/full` and its standard streams, wherever they lead.
///
/// So `/tmp`, `/home`, the rest of `/etc` and the rest of `/proc` are closed. A program that needs
/// `/proc/self` needs `/proc` in `read`, which shows it the command lines of all processes.
///
/// # Network
///
/// Without `network` it is in a network namespace of its own without interfaces: TCP, UDP, raw
/// sockets, abstract Unix sockets and every other family have no peer there.
///
/// # What else is closed
///
/// Mounting, `ptrace` of processes outside, more rights by set-user-ID programs (`no_new_privs`).
/// From Linux 6.10 on: `ioctl` of devices that are not below `write`. From Linux 6.12 on: signals
/// to processes outside, and their abstract Unix sockets, with `network` too. From Linux 7.1 on:
/// without `network`, Unix sockets with a path that is not below `write`.
///
/// # What stays open
///
/// - Names, sizes and times of files everywhere (`stat`), and owner, mode, times and extended
///   attributes of the files that its user owns (`chmod`, `utime`).
/// - Unix sockets with a path, such as those of Docker, D-Bus and databases, as far as its user may
///   connect: with `network`, and before Linux 7.1 always.
/// - Signals to processes of its user before Linux 6.12, the supervisor included.
/// - With `network`, every address.
/// - CPU, memory and disk space: see [`ResourceLimits`](crate::ResourceLimits).
/// - Where it runs as root, the rights of root beyond files, such as setting the clock. Set `user`.
///
/// # Where it is refused
///
/// The child is not started, with a sentence that says why, without Landlock of Linux 6.2 or later
/// (before it, `truncate` of every file stays open); and without `network` where neither this
/// process has `CAP_SYS_ADMIN` nor user namespaces are permitted. The rules of Landlock for TCP are
/// no substitute: they leave UDP open.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Sandbox {
    /// Files and directories to read and execute. They exist.
    pub read: Vec<PathBuf>,
    /// Files and directories to read and write. They exist.
    pub write: Vec<PathBuf>,
    /// Whether the network can be reached.
    pub network: bool,
}

/// Readable and executable in every sandbox.
const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// Readable in every sandbox.
const READABLE: [&str; 19] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
    "/sys/devices/system/cpu",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/filesystems",
];

/// Readable in a sandbox with network.
const READABLE_WITH_NETWORK: [&str; 7] = [
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/run/systemd/resolve",
];

/// Writable in every sandbox.
const WRITABLE: [&str; 2] = ["/dev/null", "/dev/full"];

/// Without this version of Landlock nothing is started.
const REQUIRED: ABI = ABI::V3;
/// Newer rights are taken away where the kernel can.
const IOCTL_DEV: ABI = ABI::V5;
const SCOPES: ABI = ABI::V6;

impl Sandbox {
    /// Restricts the calling thread, and what it starts from now on. This cannot be undone.
    ///
    /// # Errors
    ///
    /// A sentence: the kernel cannot, or a path does not exist. The thread may be restricted in
    /// part.
    pub(crate) fn enter(&self, program: Option<&Path>) -> Result<(), String> {
        if !self.network {
            unshare(CloneFlags::CLONE_NEWNET).map_err(network_error)?;
        }
        let ruleset = self.add_rules(self.ruleset()?, program)?;
        let status = ruleset.restrict_self().map_err(|error| landlock_error(root_cause(&error)))?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(landlock_error("it has no effect"));
        }
        Ok(())
    }

    /// A set of rules that allows nothing.
    fn ruleset(&self) -> Result<RulesetCreated, String> {
        let mut newer = AccessFs::from_all(IOCTL_DEV);
        if !self.network {
            newer |= AccessFs::ResolveUnix;
        }
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(REQUIRED))
            .map_err(|_| landlock_error("it has none, or an older one"))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(newer)
            .and_then(|it| it.scope(Scope::from_all(SCOPES)))
            .and_then(Ruleset::create)
            .map_err(|error| landlock_error(root_cause(&error)))
    }

    fn add_rules(
        &self,
        mut ruleset: RulesetCreated,
        program: Option<&Path>,
    ) -> Result<RulesetCreated, String> {
        let executable = AccessFs::from_read(REQUIRED);
        let readable = executable & !AccessFs::Execute;
        // Device files would reach every disk.
        let mut writable =
            AccessFs::from_all(IOCTL_DEV) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
        if !self.network {
            writable |= AccessFs::ResolveUnix;
        }
        for path in PROGRAMS {
            ruleset = allow_existing(ruleset, Path::new(path), executable)?;
        }
        for path in READABLE {
            ruleset = allow_existing(ruleset, Path::new(path), readable)?;
        }
        for path in READABLE_WITH_NETWORK.iter().filter(|_| self.network) {
            ruleset = allow_existing(ruleset, Path::new(path), readable)?;
        }
        for path in WRITABLE {
            let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
            ruleset = allow_existing(ruleset, Path::new(path), access)?;
        }
        let interpreter = program.and_then(program::interpreter);
        for path in program.into_iter().chain(interpreter.as_deref()) {
            ruleset = allow_existing(ruleset, path, executable)?;
        }
        for path in &self.read {
            ruleset =
                allow(ruleset, path, executable).map_err(|it| path_error("read", path, it))?;
        }
        for path in &self.write {
            ruleset = allow(ruleset, path, writable).map_err(|it| path_error("write", path, it))?;
        }
        Ok(ruleset)
    }
}

/// Allows `access` below `path`, if there is such a path.
fn allow_existing(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    match PathFd::new(path) {
        Ok(opened) => allow_opened(ruleset, opened, access),
        Err(_) => Ok(ruleset),
    }
}

/// Allows `access` below `path`.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let opened = PathFd::new(path).map_err(|error| root_cause(&error))?;
    allow_opened(ruleset, opened, access)
}

fn allow_opened(
    ruleset: RulesetCreated,
    opened: PathFd,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let stat = rustix::fs::fstat(&opened).map_err(|error| root_cause(&error))?;
    let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
    let access = if is_directory { access } else { access & AccessFs::from_file(ABI::V9) };
    ruleset.add_rule(PathBeneath::new(opened, access)).map_err(|error| root_cause(&error))
}

/// The innermost error: that of the system.
fn root_cause(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn path_error(key: &str, path: &Path, cause: impl Display) -> String {
    format!("sandbox.{key}: {} cannot be allowed: {cause}", path.display())
}

fn landlock_error(cause: impl Display) -> String {
    format!(
        "the sandbox needs Landlock of Linux 6.2 or later, which this system does not provide: \
         {cause}; look at the version of the kernel, at `lsm=` in its command line, which has to \
         list landlock, and at the seccomp profile of the container"
    )
}

fn network_error(error: Errno) -> String {
    let cause = match error {
        Errno::ENOSPC => "their limit is reached",
        error => error.desc(),
    };
    format!(
        "the sandbox cannot close the network (network = false), since this system permits no new \
         network namespace ({cause}); run the server with CAP_SYS_ADMIN, or permit user namespaces \
         (sysctl user.max_user_namespaces, user.max_net_namespaces, \
         kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; the \
         seccomp profile of the container), or set network = true"
    )
}

/// Returns whether this process may create network namespaces.
pub(crate) fn can_create_network_namespace() -> bool {
    let attempt = || unshare(CloneFlags::CLONE_NEWNET).is_ok();
    let thread = std::thread::Builder::new().name("corelane-netns".into()).spawn(attempt);
    thread.is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// Moves this process, which has one thread, to a user namespace of its own, where it may create
/// network namespaces. Its user and its group keep their ids.
pub(crate) fn enter_user_namespace() -> Result<(), String> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(network_error)?;
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
    ];
    for (path, text) in maps {
        std::fs::write(path, text).map_err(|error| {
            format!(
                "the sandbox cannot close the network (network = false): {path} of a new user \
                 namespace cannot be written: {error}; run the server with CAP_SYS_ADMIN, or set \
                 network = true"
            )
        })?;
    }
    Ok(())
}
