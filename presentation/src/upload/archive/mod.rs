//! Archives of snapshots: which bytes are which file, and which of the files are sent.

pub mod tar;
pub mod zip;

/// How a file begins that is packed with gzip.
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How a file begins that is packed with zstd.
pub const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Hidden files are left out, as in folders: archives of some systems are full of them.
pub fn is_shown(path: &str) -> bool {
    !path.ends_with('/')
        && path
            .split('/')
            .all(|part| !part.starts_with('.') || part == ".")
}

/// The name without the endings of archives: the name of the folder that was packed.
pub fn stem(name: &str) -> &str {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    stem.strip_suffix(".tar").unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_called_like_the_folder_that_was_packed() {
        for (name, expected) in [
            ("ranks.tar", "ranks"),
            ("ranks.tar.gz", "ranks"),
            ("ranks.tgz", "ranks"),
            ("run.3.zip", "run.3"),
            ("ranks", "ranks"),
        ] {
            assert_eq!(stem(name), expected);
        }
    }

    #[test]
    fn hidden_files_and_folders_are_left_out() {
        for (path, expected) in [
            ("out/rank0.pickle", true),
            ("./rank0.pickle", true),
            ("out/", false),
            ("out/.DS_Store", false),
            ("__MACOSX/._rank0.pickle", false),
            (".git/config", false),
        ] {
            assert_eq!(is_shown(path), expected, "{path}");
        }
    }
}
