/// First letters of the words of a name, as capitals.
pub fn initials(name: &str) -> String {
    name.split_whitespace().filter_map(|word| word.chars().next()).collect()
}
