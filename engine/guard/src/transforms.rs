//! Names of transforms in a finding's `derived_from`.

/// True when a step hides text, rather than embedding a language in another (`shell`, `heredoc`).
pub(crate) fn is_disguise(step: &str) -> bool {
    !matches!(
        step,
        "shell"
            | "python"
            | "sql"
            | "javascript"
            | "heredoc"
            | "file"
            | "powershell"
            | "batch"
            | "vbscript"
            | "quoted"
            | "cell"
            | "bytecode"
            | "recipe"
            | "workflow"
            | "image"
            | "url"
            | "container"
            | "data"
    )
}

/// True when a step leads to commands that run while a container image is built, in that image.
pub(crate) fn is_of_image(step: &str) -> bool {
    step == "image"
}

/// True when a step leads to code that a service or a container runs elsewhere, or to data of tests: never a run or a test here.
pub(crate) fn is_elsewhere(step: &str) -> bool {
    matches!(step, "workflow" | "container" | "data")
}
