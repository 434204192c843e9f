//! How a kernel is launched, by options.

use super::parameters::Parameters;
use filetest::{FileTest, HeaderError};

/// How a kernel is launched.
#[derive(clap::Args)]
#[command(next_help_heading = "Kernel")]
pub struct LaunchArgs {
    /// Kernel, where the file has several
    #[arg(long)]
    pub kernel: Option<String>,
    /// CTAs, as x,y,z
    #[arg(long, default_value = "1")]
    grid: String,
    /// Threads of a CTA, as x,y,z
    #[arg(long, default_value = "1")]
    block: String,
    /// CTAs of a cluster, as x,y,z
    #[arg(long, default_value = "1")]
    cluster: String,
    /// Dynamic shared memory in bytes
    #[arg(long, default_value_t = 0)]
    smem: u32,
    #[command(flatten)]
    parameters: Parameters,
}

impl LaunchArgs {
    /// Whether none of them was given.
    pub fn is_empty(&self) -> bool {
        let geometry = [&self.grid, &self.block, &self.cluster];
        geometry.iter().all(|extent| *extent == "1")
            && (self.smem, self.kernel.as_ref(), self.parameters.is_empty()) == (0, None, true)
    }

    /// Those that were given, as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |option: &str, value: &str, usual: &str| {
            if value != usual {
                words.extend([option.to_owned(), value.to_owned()]);
            }
        };
        add("--kernel", self.kernel.as_deref().unwrap_or_default(), "");
        add("--grid", &self.grid, "1");
        add("--block", &self.block, "1");
        add("--cluster", &self.cluster, "1");
        add("--smem", &self.smem.to_string(), "0");
        words.extend(self.parameters.words());
        words
    }

    /// The launch as a `run:` line says it.
    pub fn run_line(&self) -> String {
        let kernel = self.kernel.as_ref().map_or(String::new(), |k| format!(" --kernel {k}"));
        format!(
            "--grid {} --block {} --cluster {} --smem {}{kernel}{}",
            self.grid, self.block, self.cluster, self.smem, self.parameters
        )
    }

    /// A text as a test whose only run is the one asked for: by these options, or else by its own first.
    pub fn file_test(&self, name: &str, source: &str) -> Result<FileTest, HeaderError> {
        let given = self.run_line();
        let own = self.is_empty() && source.contains("// run:");
        FileTest::parse_launch(name, source, (!own).then_some(given.as_str()))
    }
}
