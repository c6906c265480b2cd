//! Finds the files that a person means: single snapshots, and folders and archives with the ranks
//! of jobs.

use super::CliError;
use super::archives::{self, Unpacked};
use super::output::tell;
use crate::identity::run_id;
use api::ids::RunId;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use trace::ranks::archives::Packed;
use trace::ranks::names::{Chosen, Ordered, RankSet, common_start, ranks_of, sets};
use trace::ranks::{MAX_RANKS, Rank};

/// The largest number of files in a folder, including its subfolders.
const MOST: usize = 2 * MAX_RANKS as usize;
/// Files that are named one by one.
pub const LISTED: usize = 8;
/// The largest depth of subfolders.
const DEEPEST: usize = 6;

/// The files of the ranks of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFiles {
    /// The common name of the files, without the rank.
    pub name: String,
    /// By rank.
    pub files: Vec<(Rank, PathBuf)>,
    /// How they are numbered if the files do not say it.
    pub ordered: Option<Ordered>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Jobs.
    pub jobs: Vec<JobFiles>,
    /// Files that belong to no job, in the order of the arguments.
    pub others: Vec<PathBuf>,
    /// The ranks that files name, as far as they name one.
    ranks: HashMap<PathBuf, Rank>,
    /// Archives that contain some of the files; they stay unpacked as long as this lives.
    archives: Vec<Unpacked>,
    /// What is said of archives some of whose files cannot be unpacked; the others are.
    pub lost: Vec<CliError>,
}

/// The rank and the file of an argument such as `3=a.pickle`, unless a file is called so.
pub fn with_rank(argument: &Path) -> Option<(Rank, &Path)> {
    let (rank, file) = argument.to_str()?.split_once('=')?;
    let is_rank = !rank.is_empty() && rank.bytes().all(|b| b.is_ascii_digit());
    // What no number can hold is no rank either, and refused as too large.
    let given = || (Rank(rank.parse().unwrap_or(u32::MAX)), Path::new(file));
    (is_rank && !file.is_empty() && !argument.exists()).then(given)
}

/// The file that an argument means, with or without a rank.
pub fn file_of(argument: &Path) -> &Path {
    with_rank(argument).map_or(argument, |(_, file)| file)
}

/// The job of the files that were given with their ranks.
fn job_of(mut files: Vec<(Rank, PathBuf)>) -> Result<Option<JobFiles>, CliError> {
    files.sort();
    if let Some((rank, file)) = files.iter().find(|(rank, _)| rank.0 >= MAX_RANKS) {
        return Err(CliError::Usage(format!(
            "{rank}={}: a job has at most {MAX_RANKS} ranks, from 0 on",
            file.display()
        )));
    }
    let mut pairs = files.iter().zip(files.iter().skip(1));
    if let Some(((rank, one), (_, other))) = pairs.find(|(one, other)| one.0 == other.0) {
        return Err(CliError::Usage(format!(
            "{} and {} are both given as rank {rank}",
            one.display(),
            other.display()
        )));
    }
    if let Some((rank, file)) = files.iter().find(|(_, file)| file.is_dir()) {
        return Err(CliError::Usage(format!(
            "{rank}={}: a rank is a file, and this is a folder",
            file.display()
        )));
    }
    let texts: Vec<String> = files.iter().map(|(_, file)| text(file)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    match &files[..] {
        [] => Ok(None),
        [(rank, file)] => Err(CliError::Usage(format!(
            "{rank}={} is the only file with a rank: a job has several",
            file.display()
        ))),
        _ => Ok(Some(JobFiles {
            name: common_start(&texts),
            files,
            ordered: None,
        })),
    }
}

/// The jobs among the paths, and the files that belong to none. Files that are given with their
/// ranks (`0=FILE`) are one job.
///
/// # Errors
/// When a folder cannot be read or holds too much, or when ranks are given wrongly.
pub fn find(paths: &[PathBuf]) -> Result<Found, CliError> {
    let mut found = Found::default();
    let given = paths.iter().filter_map(|path| with_rank(path));
    let given = given.map(|(rank, file)| (rank, file.to_owned()));
    found.jobs.extend(job_of(given.collect())?);
    let (mut single, mut packed) = (Vec::new(), Vec::new());
    let files_in = |folder: &Path| {
        let mut files = Vec::new();
        walk(folder, 0, &mut files)?;
        files.sort();
        Ok::<_, CliError>(files)
    };
    for path in paths.iter().filter(|path| with_rank(path).is_none()) {
        if path.is_dir() {
            found.add(files_in(path)?, Chosen::Folder);
        } else if let Some(archive) = archives::unpack(path, MOST)? {
            packed.push((path.clone(), files_in(archive.folder())?));
            if let Some(links) = archive.left_out().links() {
                tell(&format!("{}: {links}", path.display()));
            }
            let lost = archive.left_out().files().map(|why| CliError::BadInput {
                path: path.clone(),
                why,
            });
            found.lost.extend(lost);
            found.archives.push(archive);
        } else {
            single.push(path.clone());
        }
    }
    found.add_packed(packed);
    found.add(single, Chosen::OneByOne);
    Ok(found)
}

impl Found {
    /// Whether some of the files were found in folders or archives, and not named directly.
    pub fn has_archives(&self) -> bool {
        !self.archives.is_empty()
    }

    /// The name of a file; in an archive, the archive's name and its own.
    pub fn called(&self, file: &Path) -> String {
        let in_archive = self.archives.iter().find_map(|one| one.called(file));
        in_archive.unwrap_or_else(|| file.display().to_string())
    }

    /// The rank that a file names.
    pub fn rank_of(&self, file: &Path) -> Option<Rank> {
        self.ranks.get(file).copied()
    }

    /// A line for each of the first files, by what is said of it, and how many more there are.
    pub fn listed<'f>(
        &self,
        files: impl ExactSizeIterator<Item = &'f PathBuf>,
        says: impl Fn(&Path) -> String,
    ) -> Vec<String> {
        let more = files.len().saturating_sub(LISTED);
        let line = |file: &PathBuf| format!("  {}{}", self.called(file), says(file));
        let mut lines: Vec<String> = files.take(LISTED).map(line).collect();
        lines.extend((more > 0).then(|| format!("  … {more} more")));
        lines
    }

    /// Whether a file lies in an archive: then it cannot be named, only unpacked.
    pub fn is_in_archive(&self, file: &Path) -> bool {
        self.archives.iter().any(|one| one.called(file).is_some())
    }

    /// Why these files are no ranks of one job: two of them that are not, if there are two.
    pub fn why_no_job(&self, files: &[&PathBuf]) -> Option<String> {
        let mut seen: Vec<(Rank, &Path)> = Vec::new();
        for file in files {
            let Some(&rank) = self.ranks.get(*file) else {
                continue;
            };
            if let Some((_, other)) = seen.iter().find(|(known, _)| *known == rank) {
                let [one, two] = [other, file.as_path()].map(|file| self.called(file));
                return Some(format!("{one} and {two} both name rank {rank}"));
            }
            seen.push((rank, file));
        }
        match files {
            [one, two, ..] => {
                let [one, two] = [one, two].map(|file| self.called(file));
                Some(format!(
                    "{one} and {two} differ in more than the rank, or name none"
                ))
            }
            _ => None,
        }
    }

    /// Adds archives, each with its files. Those whose names differ only in the rank belong
    /// together, as on the page.
    fn add_packed(&mut self, archives: Vec<(PathBuf, Vec<PathBuf>)>) {
        let names: Vec<String> = archives.iter().map(|(path, _)| text(path)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (sets, left) = sets(&names, Chosen::OneByOne);
        for at in left {
            self.add(archives[at].1.clone(), Chosen::Folder);
        }
        for set in sets {
            let own: Vec<&Vec<PathBuf>> =
                set.files.iter().map(|&(_, at)| &archives[at].1).collect();
            let texts: Vec<Vec<String>> = own.iter().map(|files| self.inside(files)).collect();
            let inside: Vec<Vec<&str>> = (texts.iter())
                .map(|files| files.iter().map(String::as_str).collect())
                .collect();
            match Packed::of(&set.name, &inside) {
                Packed::ByArchive => {
                    let files = set.files.iter().zip(&own);
                    let files = files.map(|(&(rank, _), files)| (rank, files[0].clone()));
                    self.jobs.push(JobFiles {
                        name: set.name,
                        files: files.collect(),
                        ordered: set.ordered,
                    });
                }
                Packed::Together(texts) => {
                    let files = own.into_iter().flatten().cloned().collect();
                    self.add_named(files, &texts, Chosen::Folder);
                }
                Packed::Apart => {
                    for files in own {
                        self.add(files.clone(), Chosen::Folder);
                    }
                }
            }
        }
    }

    /// The paths of files in archives, behind the names of the archives.
    fn inside(&self, files: &[PathBuf]) -> Vec<String> {
        let inside = |file: &PathBuf| {
            let mut around = self.archives.iter().filter_map(|one| one.folder().parent());
            let around = around.find_map(|around| file.strip_prefix(around).ok());
            text(around.unwrap_or(file))
        };
        files.iter().map(inside).collect()
    }

    fn add(&mut self, files: Vec<PathBuf>, chosen: Chosen) {
        let texts: Vec<String> = files.iter().map(|file| text(file)).collect();
        self.add_named(files, &texts, chosen);
    }

    /// Adds files under other paths than their own.
    fn add_named(&mut self, files: Vec<PathBuf>, texts: &[String], chosen: Chosen) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let named = files.iter().zip(ranks_of(&texts));
        let named = named.filter_map(|(file, rank)| Some((file.clone(), rank?)));
        self.ranks.extend(named);
        let (sets, left) = sets(&texts, chosen);
        let job = |set: RankSet| JobFiles {
            name: set.name,
            files: set
                .files
                .into_iter()
                .map(|(rank, at)| (rank, files[at].clone()))
                .collect(),
            ordered: set.ordered,
        };
        self.jobs.extend(sets.into_iter().map(job));
        self.others
            .extend(left.into_iter().map(|at| files[at].clone()));
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// Opens a file to read it; `-` is the standard input.
///
/// # Errors
/// Why not. A folder can be opened like a file, and then looks empty: this says what it is.
pub fn open(path: &Path) -> Result<File, String> {
    let file = match path.as_os_str() == "-" {
        true => standard_input(),
        false => File::open(path),
    };
    let file = file.map_err(|error| format!("cannot open it: {error}"))?;
    match file.metadata() {
        Ok(found) if found.is_dir() => Err("it is a folder, not a file".to_owned()),
        _ => Ok(file),
    }
}

#[cfg(unix)]
fn standard_input() -> std::io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}

#[cfg(not(unix))]
fn standard_input() -> std::io::Result<File> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Bytes of a file; `None` if it is a pipe, of which nobody knows.
///
/// # Errors
/// When the file system does not say.
pub fn size_of(file: &File) -> std::io::Result<Option<u64>> {
    let found = file.metadata()?;
    Ok(found.is_file().then_some(found.len()))
}

/// The id of the run that a file becomes, wherever it is sent to.
///
/// # Errors
/// Why it cannot be read.
pub fn run_of(path: &Path) -> Result<RunId, String> {
    let mut hasher = blake3::Hasher::new();
    let read = hasher.update_reader(open(path)?);
    read.map_err(|error| format!("cannot read it: {error}"))?;
    Ok(run_id(&hasher.finalize()))
}

/// Refuses a second `-`: the standard input is one file, and it can be read only once.
///
/// # Errors
/// [`CliError::Usage`].
pub fn input_once<'p>(paths: impl Iterator<Item = &'p Path>) -> Result<(), CliError> {
    match paths.filter(|path| path.as_os_str() == "-").count() {
        0 | 1 => Ok(()),
        _ => Err(CliError::Usage(
            "`-` is the standard input, which can be read only once: name it once".to_owned(),
        )),
    }
}

/// Whether all files can be opened: asked before the first of them is read, which may take long.
/// The standard input and pipes are not asked, since they can be opened only once.
///
/// # Errors
/// [`CliError::BadInput`] for the first that cannot.
pub fn all_open<'p>(mut paths: impl Iterator<Item = &'p Path>) -> Result<(), CliError> {
    let is_once = |path: &Path| {
        let found = path.metadata();
        path.as_os_str() == "-" || found.is_ok_and(|found| !found.is_file() && !found.is_dir())
    };
    paths.try_for_each(|path| match is_once(path) {
        true => Ok(()),
        false => open(path).map(drop).map_err(|why| CliError::BadInput {
            path: path.to_owned(),
            why,
        }),
    })
}

/// The files of a folder and of its subfolders. Links are followed only to files, and hidden files
/// are left out.
fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let bad = |why: String| CliError::BadInput {
        path: folder.to_owned(),
        why,
    };
    let unreadable = |error: std::io::Error| bad(format!("cannot read the folder: {error}"));
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let (path, kind) = (entry.path(), entry.file_type().map_err(unreadable)?);
        if kind.is_dir() {
            if depth < DEEPEST {
                walk(&path, depth + 1, files)?;
            }
        } else if path.is_file() {
            files.push(path);
        }
        if files.len() > MOST {
            return Err(bad(format!("it holds more than {MOST} files")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_job_of_an_archive_is_called_by_its_folder_or_by_the_archive() {
        let check = |archive: &str, names: [&str; 2], expected: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(archive);
            let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
            for name in names {
                let options = zip::write::SimpleFileOptions::default();
                zip.start_file(name, options).unwrap();
                zip.write_all(b"x").unwrap();
            }
            zip.finish().unwrap();
            let found = find(std::slice::from_ref(&path)).unwrap();
            let [job] = &found.jobs[..] else {
                panic!("{found:?}")
            };
            assert_eq!(job.name, expected);
            let file = found.called(&job.files[0].1);
            assert_eq!(file, format!("{}:{}", path.display(), names[0]));
        };
        let flat = ["rank0.pickle", "rank1.pickle"];
        check("r.zip", flat, "r");
        check("nightly.v2.zip", flat, "nightly.v2");
        check("r.zip", ["out/rank0.pickle", "out/rank1.pickle"], "out");
        check("r.zip", ["a_rank0.pickle", "a_rank1.pickle"], "a");
        check("r.zip", ["rank0/s.pickle", "rank1/s.pickle"], "r");
    }

    #[test]
    fn files_may_be_given_with_their_ranks() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| std::fs::write(folder.path().join(name), "x").unwrap();
        for name in ["a.pickle", "b.pickle", "c.pickle", "2=d.pickle"] {
            put(name);
        }
        let given = |arguments: &[&str]| -> Vec<PathBuf> {
            let path = |argument: &&str| match argument.split_once('=') {
                Some((rank, file)) if !file.starts_with('d') => {
                    PathBuf::from(format!("{rank}={}", folder.path().join(file).display()))
                }
                _ => folder.path().join(argument),
            };
            arguments.iter().map(path).collect()
        };
        let found = find(&given(&["1=a.pickle", "c.pickle", "0=b.pickle"])).unwrap();
        let [job] = &found.jobs[..] else {
            panic!("{found:?}")
        };
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let files: Vec<(u32, String)> = job.files.iter().map(|(r, p)| (r.0, name(p))).collect();
        assert_eq!(files, [(0, "b.pickle".into()), (1, "a.pickle".into())]);
        assert_eq!(found.others, given(&["c.pickle"]));
        // A file may be called so.
        let found = find(&given(&["2=d.pickle"])).unwrap();
        assert!(found.jobs.is_empty(), "{found:?}");
        let refused = |arguments: &[&str], why: &str| match find(&given(arguments)) {
            Err(CliError::Usage(told)) => assert!(told.contains(why), "{told}"),
            other => panic!("{arguments:?}: {other:?}"),
        };
        refused(&["0=a.pickle"], "is the only file with a rank");
        refused(&["0=a.pickle", "0=b.pickle"], "are both given as rank 0");
        refused(&["0=a.pickle", "4096=b.pickle"], "at most 4096 ranks");
        refused(&["0=a.pickle", "1=."], "this is a folder");
    }

    #[test]
    fn archives_that_differ_in_the_rank_belong_together() {
        let check = |archives: &[(&str, &[&str])], expected: &[(&str, usize)]| {
            let folder = tempfile::tempdir().unwrap();
            let pack = |(archive, names): &(&str, &[&str])| {
                let path = folder.path().join(archive);
                let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
                for name in *names {
                    let options = zip::write::SimpleFileOptions::default();
                    zip.start_file(*name, options).unwrap();
                    zip.write_all(b"x").unwrap();
                }
                zip.finish().unwrap();
                path
            };
            let paths: Vec<PathBuf> = archives.iter().map(pack).collect();
            let found = find(&paths).unwrap();
            let jobs = found.jobs.iter();
            let jobs: Vec<(&str, usize)> = jobs
                .map(|job| (job.name.as_str(), job.files.len()))
                .collect();
            assert_eq!(jobs, expected, "{archives:?}");
        };
        let flat: &[&str] = &["rank0.pickle", "rank1.pickle"];
        let more: &[&str] = &["rank2.pickle", "rank3.pickle"];
        check(&[("a.zip", flat), ("b.zip", flat)], &[("a", 2), ("b", 2)]);
        let one: &[&str] = &["snapshot.pickle"];
        check(&[("a_rank0.zip", one), ("a_rank1.zip", one)], &[("a", 2)]);
        check(&[("a_rank0.zip", flat), ("a_rank1.zip", more)], &[("a", 4)]);
        check(
            &[("a_rank0.zip", flat), ("a_rank1.zip", flat)],
            &[("a_rank0", 2), ("a_rank1", 2)],
        );
        let notes: &[&str] = &["snapshot.pickle", "notes.txt"];
        check(&[("a_rank0.zip", notes), ("a_rank1.zip", one)], &[("a", 2)]);
    }

    #[test]
    fn two_files_that_are_no_ranks_of_one_job_are_named() {
        let check = |names: &[&str], expected: Option<&str>| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("r.zip");
            let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
            for name in names {
                let options = zip::write::SimpleFileOptions::default();
                zip.start_file(*name, options).unwrap();
                zip.write_all(b"x").unwrap();
            }
            zip.finish().unwrap();
            let found = find(std::slice::from_ref(&path)).unwrap();
            assert!(found.jobs.is_empty(), "{found:?}");
            assert!(found.others.iter().all(|file| found.is_in_archive(file)));
            let files: Vec<&PathBuf> = found.others.iter().collect();
            let why = found.why_no_job(&files);
            let why = why.map(|why| why.replace(&format!("{}:", path.display()), ""));
            assert_eq!(why.as_deref(), expected, "{names:?}");
        };
        check(&["a_rank0.pickle"], None);
        check(
            &["a_rank0.pickle", "b_rank0.pickle"],
            Some("a_rank0.pickle and b_rank0.pickle both name rank 0"),
        );
        check(
            &["before.pickle", "later.pickle"],
            Some("before.pickle and later.pickle differ in more than the rank, or name none"),
        );
    }

    /// The system's folder for what is unpacked, or a mounted disk, may be called like a rank.
    #[test]
    fn where_a_folder_lies_is_no_rank() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("rank3/w");
        std::fs::create_dir_all(&inner).unwrap();
        let check = |names: [&str; 2], jobs: usize, why: Option<&str>| {
            let place = inner.join(names[0]);
            std::fs::create_dir(&place).unwrap();
            for name in names {
                std::fs::write(place.join(name), "").unwrap();
            }
            let found = find(std::slice::from_ref(&place)).unwrap();
            assert_eq!(found.jobs.len(), jobs, "{found:?}");
            let files: Vec<&PathBuf> = found.others.iter().collect();
            let said = found.why_no_job(&files).unwrap_or_default();
            assert!(said.contains(why.unwrap_or_default()), "{said}");
        };
        check(["s_0.pkl", "s_1.pkl"], 1, None);
        check(["a.pkl", "b.pkl"], 0, Some("differ in more than the rank"));
        check(["a_rank1.pkl", "b_rank1.pkl"], 0, Some("both name rank 1"));
    }

    #[test]
    fn a_folder_is_its_jobs() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "a_rank0.pkl",
            "a_rank1.pkl",
            "notes.md",
            ".hidden_rank2.pkl",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let lone = folder.path().join("lone.pickle");
        let found = find(&[folder.path().to_owned(), lone.clone()]).unwrap();
        let [job] = &found.jobs[..] else {
            panic!("{found:?}")
        };
        assert_eq!(job.name, "a");
        let ranks: Vec<u32> = job.files.iter().map(|(rank, _)| rank.0).collect();
        assert_eq!(ranks, [0, 1]);
        assert_eq!(found.others, [folder.path().join("notes.md"), lone]);
    }
}
