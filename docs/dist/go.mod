module github.com/ration-dev/ration/docs/dist

go 1.26.0
