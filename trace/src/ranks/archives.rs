//! Archives that are the ranks of one job, or hold some of them each.

use super::names::{Chosen, rank_of, sets_that_say};

/// What the files in archives are whose names differ only in the rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packed {
    /// One file in each: the archive's name says which rank that is.
    ByArchive,
    /// One folder: the paths of all files in it, archive after archive.
    Together(Vec<String>),
    /// Each archive is a folder of its own.
    Apart,
}

impl Packed {
    /// Sorts the files of each archive, whose paths begin with the archive's name. If their own
    /// names have ranks, the archives are one folder where each rank is there once, as with the
    /// ranks of each host. If only the archives' names have ranks, they are folders of one folder.
    /// That is called `job`.
    pub fn of(job: &str, archives: &[Vec<&str>]) -> Packed {
        if archives.iter().all(|files| files.len() == 1) {
            return Packed::ByArchive;
        }
        let name_ranks =
            |files: &Vec<&str>| files.iter().any(|path| rank_of(inner(path)).is_some());
        let naming = archives.iter().filter(|files| name_ranks(files)).count();
        let files = archives.iter().flatten();
        if naming == 0 {
            return Packed::Together(files.map(|path| format!("{job}/{path}")).collect());
        }
        let paths: Vec<String> = files.map(|path| format!("{job}/{}", inner(path))).collect();
        let texts: Vec<&str> = paths.iter().map(String::as_str).collect();
        let (found, _) = sets_that_say(&texts, Chosen::Folder);
        match (&found[..], naming == archives.len()) {
            ([one], true) if has_some_of_each(archives, &one.files) => Packed::Together(paths),
            _ => Packed::Apart,
        }
    }
}

/// The path in the archive.
fn inner(path: &str) -> &str {
    path.split_once('/').map_or(path, |(_, inner)| inner)
}

/// Whether a job has files of all archives: otherwise it is one that is in fewer of them.
fn has_some_of_each<R>(archives: &[Vec<&str>], files: &[(R, usize)]) -> bool {
    let mut from = 0;
    archives.iter().all(|archive| {
        let own = from..from + archive.len();
        from = own.end;
        files.iter().any(|(_, at)| own.contains(at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_one_folder_where_each_rank_is_there_once() {
        let check = |archives: &[&[&str]], expected: Packed| {
            let archives: Vec<Vec<&str>> = archives.iter().map(|files| files.to_vec()).collect();
            assert_eq!(Packed::of("a", &archives), expected, "{archives:?}");
        };
        let together = |paths: &[&str]| {
            let paths = paths.iter().map(|path| (*path).to_owned());
            Packed::Together(paths.collect())
        };
        let [first, second] = [["a_r0/s.pickle"], ["a_r1/s.pickle"]];
        check(&[&first, &second], Packed::ByArchive);
        check(
            &[&["a_r0/r5.pickle"], &["a_r1/r6.pickle"]],
            Packed::ByArchive,
        );
        check(
            &[&["a_r0/s.pickle", "a_r0/notes.txt"], &second],
            together(&["a/a_r0/s.pickle", "a/a_r0/notes.txt", "a/a_r1/s.pickle"]),
        );
        // The ranks of two hosts.
        check(
            &[
                &["a_r0/r0.pickle", "a_r0/r1.pickle"],
                &["a_r1/r2.pickle", "a_r1/r3.pickle"],
            ],
            together(&["a/r0.pickle", "a/r1.pickle", "a/r2.pickle", "a/r3.pickle"]),
        );
        // Two jobs, or two hosts whose ranks are counted from 0: nobody can tell.
        let again: &[&str] = &["a_r1/r0.pickle", "a_r1/r1.pickle"];
        check(
            &[&["a_r0/r0.pickle", "a_r0/r1.pickle"], again],
            Packed::Apart,
        );
        check(&[&["a_r0/s.pickle", "a_r0/t.pickle"], again], Packed::Apart);
    }
}
