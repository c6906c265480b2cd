//! The machine's memory: how much there is, and how unused memory goes back to the system.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use trace::units::Bytes;

/// A memory budget that this machine cannot provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMemory {
    /// The machine has less.
    #[error(
        "--memory {wanted} is more than this machine can give: it has {there} in all{}; give \
         at most {most}",
        if *.limited { " (the limit of its cgroup)" } else { "" }
    )]
    TooMuch {
        /// What was asked for.
        wanted: Bytes,
        /// What there is.
        there: Bytes,
        /// Whether a cgroup sets the limit.
        limited: bool,
        /// What would be accepted.
        most: Bytes,
    },
    /// It is too little to read anything.
    #[error("--memory {wanted} is too little to read a snapshot; give at least {least}")]
    TooLittle {
        /// What was asked for.
        wanted: Bytes,
        /// What would be accepted.
        least: Bytes,
    },
}

/// The smallest budget.
const LEAST: Bytes = Bytes::mib(64);

/// Refuses a budget that the machine cannot provide.
///
/// # Errors
/// A sentence that names a possible budget.
pub fn check(wanted: Bytes) -> Result<(), BadMemory> {
    check_against(wanted, installed(), cgroup())
}

fn check_against(
    wanted: Bytes,
    installed: Option<Bytes>,
    cgroup: Option<Bytes>,
) -> Result<(), BadMemory> {
    let least = LEAST;
    if wanted < least {
        return Err(BadMemory::TooLittle { wanted, least });
    }
    let Some(there) = installed.into_iter().chain(cgroup).min() else {
        return Ok(());
    };
    let limited = cgroup == Some(there) && installed != Some(there);
    let most = there.saturating_sub(crate::limits::budget::Budget::BESIDE);
    match wanted <= most {
        true => Ok(()),
        false => Err(BadMemory::TooMuch {
            wanted,
            there,
            limited,
            most,
        }),
    }
}

/// The installed memory.
fn installed() -> Option<Bytes> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::kib(kib))
}

/// The limit of the process's cgroup or of one above it, in either version.
fn cgroup() -> Option<Bytes> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next().unwrap_or_default().to_owned();
        let group = parts.next().unwrap_or_default().trim_start_matches('/');
        let (root, file) = match controllers.as_str() {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        };
        let counts = controllers.is_empty() || controllers.split(',').any(|c| c == "memory");
        let own = Path::new(root).join(group);
        let up: Vec<_> = own
            .ancestors()
            .take_while(|p| p.starts_with(root))
            .collect();
        let limits = up.iter().filter(|_| counts).map(|folder| folder.join(file));
        limits.filter_map(|path| limit(&path)).collect::<Vec<_>>()
    });
    limits.min()
}

/// Reads a file that has a number of bytes, or a word.
fn limit(path: &Path) -> Option<Bytes> {
    let text = std::fs::read_to_string(path).ok()?;
    text.trim().parse().ok().map(Bytes)
}

/// Settings for glibc's allocator. By default it makes up to eight arenas for each core, and each
/// arena keeps freed memory. After one large vector, it also takes vectors of up to 32 MiB from
/// these arenas. So after a few uploads, hundreds of megabytes are held unused.
const ALLOCATOR: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MALLOC_MMAP_THRESHOLD_", "1048576"),
    ("MALLOC_TRIM_THRESHOLD_", "4194304"),
];

/// Passes these settings to the allocator. It reads them from the environment, and only once, so
/// the program starts itself again as the same process. If the user has set any of them, nothing is
/// changed.
pub fn prepare_allocator() {
    let told = ALLOCATOR
        .iter()
        .any(|(name, _)| std::env::var_os(name).is_some());
    if told || !cfg!(target_env = "gnu") {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut again = Command::new(program);
    again.args(std::env::args_os().skip(1)).envs(ALLOCATOR);
    // This returns only if it fails; then the defaults are used.
    let error = again.exec();
    tracing::debug!(%error, "cannot start again with settings for the allocator");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_fits_the_machine_and_its_cgroup() {
        let check = |wanted, installed, cgroup, ok: bool| {
            let checked = check_against(wanted, installed, cgroup);
            assert_eq!(checked.is_ok(), ok, "{checked:?}");
            if let Err(error) = checked {
                assert!(error.to_string().contains("give at"), "{error}");
            }
        };
        check(Bytes::gib(1), None, None, true);
        check(Bytes::gib(1), Some(Bytes::gib(8)), None, true);
        check(Bytes::gib(1), Some(Bytes::gib(1)), None, false);
        check(
            Bytes::gib(1),
            Some(Bytes::gib(8)),
            Some(Bytes::mib(512)),
            false,
        );
        check(
            Bytes::mib(400),
            Some(Bytes::gib(8)),
            Some(Bytes::mib(512)),
            true,
        );
        check(Bytes::mib(9), Some(Bytes::gib(8)), None, false);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(installed().is_some_and(|there| there > Bytes::mib(64)));
    }
}
