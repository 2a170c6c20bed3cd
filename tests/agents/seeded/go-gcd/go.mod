module project

go 1.18
