//! Writes a [`Site`] to files for `include_bytes!`, with a table of their names.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::compile::Profile;
use crate::error::Error;
use crate::site::{Site, SiteFile};

/// Writes `assets.rs` in `out_dir` for this front end.
pub fn write(out_dir: &Path, site: &Site, profile: Profile) -> Result<(), Error> {
    let dir = out_dir.join("web");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
    let mut rows = String::new();
    let mut sorted: Vec<&SiteFile> = site.files.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    for (index, file) in sorted.into_iter().enumerate() {
        let save = |suffix: &str, bytes: &[u8]| {
            let path = dir.join(format!("{index}{suffix}"));
            fs::write(&path, bytes).map_err(Error::io(&path))?;
            Ok::<_, Error>(format!("include_bytes!({path:?})"))
        };
        let bytes = save("", &file.bytes)?;
        let brotli = match &file.brotli {
            Some(brotli) => format!("Some({} as &[u8])", save(".br", brotli)?),
            None => "None".to_owned(),
        };
        let SiteFile {
            path,
            mime,
            immutable,
            ..
        } = file;
        let _ = writeln!(
            rows,
            "    Asset {{ path: Cow::Borrowed({path:?}), mime: Cow::Borrowed({mime:?}), \
             immutable: {immutable}, bytes: Cow::Borrowed({bytes}), brotli: {brotli} }},"
        );
    }
    let table = format!(
        "use std::borrow::Cow;\n\
         static ASSETS: &[Asset] = &[\n{rows}];\n\
         #[cfg(test)]\n         const BUILT_WITH: Option<&str> = Some({:?});\n",
        profile.name()
    );
    let path = out_dir.join("assets.rs");
    fs::write(&path, table).map_err(Error::io(&path))
}
