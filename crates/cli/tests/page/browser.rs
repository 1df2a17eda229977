//! A real headless browser, and the rendered page.

use std::path::Path;
use std::process::Command;

pub struct Browser {
    program: String,
}

/// The document of a rendered page.
#[derive(Debug)]
pub struct Document(pub String);

impl Browser {
    /// The one that `TIDEKV_CHROMIUM` names.
    pub fn from_environment() -> Option<Self> {
        std::env::var("TIDEKV_CHROMIUM").ok().map(|program| Self { program })
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            // Errors of the page go to standard error.
            .args(["--enable-logging=stderr", "--virtual-time-budget=3000"])
            .arg(format!("--user-data-dir={}", directory.display()));
        command
    }

    /// Opens the page and waits until it is drawn.
    pub fn open(&self, url: &str) -> Document {
        let profile = tempfile::tempdir().unwrap();
        let output = self.command(profile.path()).args(["--dump-dom", url]).output().unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!complaints.contains("CONSOLE"), "{complaints}");
        Document(String::from_utf8(output.stdout).unwrap())
    }

    /// Takes pictures if `TIDEKV_CHROMIUM_PICTURES` names a directory; file names begin with `beginning`.
    pub fn take_pictures(&self, url: &str, beginning: &str) {
        let Some(place) = std::env::var_os("TIDEKV_CHROMIUM_PICTURES") else { return };
        let dark = "--blink-settings=preferredColorScheme=0";
        for (name, size, setting) in [
            ("light", "1280,1250", ""),
            ("dark", "1280,1250", dark),
            ("whole", "1280,2250", ""),
            ("narrow", "500,3700", ""),
        ] {
            let profile = tempfile::tempdir().unwrap();
            let file = Path::new(&place).join(format!("{beginning}{name}.png"));
            let mut command = self.command(profile.path());
            command.arg(format!("--window-size={size}"));
            command.arg(format!("--screenshot={}", file.display()));
            if !setting.is_empty() {
                command.arg(setting);
            }
            let done = command.arg(url).output().unwrap();
            assert!(done.status.success() && file.exists(), "{done:?}");
        }
    }
}

impl Document {
    /// The text of the document.
    pub fn text(&self) -> String {
        let parts = self.0.split('<').filter_map(|part| part.split_once('>'));
        parts.map(|(_, text)| text).collect::<Vec<_>>().join(" ")
    }

    /// Asserts that the page is live, no script has failed, and all figures are drawn.
    #[track_caller]
    pub fn is_alive(&self) {
        let root = self.0.split("<html").nth(1).unwrap().split('>').next().unwrap();
        assert!(root.contains("data-state=\"live\""), "{root}");
        assert!(root.contains("data-errors=\"0\""), "{root}");
        let figures = self.0.matches("<figure").count();
        assert_eq!(self.0.matches("over time are in the table.\"").count(), figures);
    }
}

/// The value of the first attribute of that name.
pub fn attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split(&format!("{name}=\"")).nth(1)?.split('"').next()
}
