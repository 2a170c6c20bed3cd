/// Tells if a year of the Gregorian calendar has a 29th of February.
pub fn is_leap(year: u32) -> bool {
    year % 4 == 0 && year % 100 != 0
}
