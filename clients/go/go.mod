module github.com/waterclock/waterclock/clients/go

go 1.19
