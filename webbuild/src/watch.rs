//! Builds the front end again whenever one of its sources changes, for `tidemark serve
//! --front-end`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::compile::Profile;
use crate::error::Error;
use crate::site::{self, Site};
use crate::{Workshop, progress};

/// How often the sources are checked.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The list of files that crate `site` reads.
const LIST: &str = "files.txt";

/// Builds, waits for a change, and builds again. It ends only if the folder itself has an error.
pub fn watch(workshop: &Workshop, folder: &Path) -> Result<(), Error> {
    println!("writing the front end to {}", folder.display());
    let mut built = None;
    loop {
        let newest = newest(&workshop.inputs());
        if newest == built {
            thread::sleep(LOOK_EVERY);
            continue;
        }
        built = newest;
        let started = Instant::now();
        match workshop.build(Profile::Dev) {
            Ok(site) => {
                write(folder, &site.reloading())?;
                println!("built in {}", progress::seconds(started.elapsed()));
            }
            // Probably a typing mistake: the next change tries again.
            Err(error) => println!("{error}"),
        }
    }
}

/// When any of these files, or of the files in these folders, was last changed.
fn newest(paths: &[PathBuf]) -> Option<SystemTime> {
    let of = |path: &PathBuf| {
        let own = fs::metadata(path).and_then(|data| data.modified()).ok();
        let inside: Vec<PathBuf> = fs::read_dir(path)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        own.max(newest(&inside))
    };
    paths.iter().filter_map(of).max()
}

/// Writes the files, then their list, so that a page finds what it names. Then removes the files of
/// an earlier build.
fn write(folder: &Path, site: &Site) -> Result<(), Error> {
    let mut list = String::new();
    for file in &site.files {
        let path = folder.join(file.path.trim_start_matches('/'));
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
        fs::write(&path, &file.bytes).map_err(Error::io(&path))?;
        list.push_str(&format!("{}\t{}\n", file.mime, file.path));
    }
    let (new, path) = (folder.join("files.new"), folder.join(LIST));
    fs::write(&new, list).map_err(Error::io(&new))?;
    fs::rename(&new, &path).map_err(Error::io(&path))?;
    site::remove_earlier(folder, site)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::SiteFile;

    fn site(hash: &str) -> Site {
        let file = |path: String| SiteFile {
            path,
            mime: "text/plain",
            immutable: false,
            bytes: hash.as_bytes().to_vec(),
            brotli: None,
        };
        Site {
            files: vec![
                file(format!("/assets/{hash}/web.js")),
                file("/index.html".to_owned()),
            ],
        }
    }

    #[test]
    fn a_new_build_replaces_the_old_one() {
        let folder = std::env::temp_dir().join(format!("watch-{}", std::process::id()));
        write(&folder, &site("a")).unwrap();
        write(&folder, &site("b")).unwrap();
        assert_eq!(fs::read(folder.join("index.html")).unwrap(), b"b");
        assert!(folder.join("assets/b/web.js").exists());
        assert!(!folder.join("assets/a").exists());
        let list = fs::read_to_string(folder.join(LIST)).unwrap();
        assert!(list.contains("text/plain\t/assets/b/web.js"), "{list}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_change_deep_inside_is_seen() {
        let folder = std::env::temp_dir().join(format!("newest-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        let inputs = [folder.clone()];
        let before = newest(&inputs);
        let file = fs::File::create(folder.join("a/b/c")).unwrap();
        let later = SystemTime::now() + Duration::from_secs(9);
        file.set_modified(later).unwrap();
        assert!(newest(&inputs) > before);
        fs::remove_dir_all(&folder).unwrap();
    }
}
