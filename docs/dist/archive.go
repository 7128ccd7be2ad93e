package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// file is a file to be packed or written.
type file struct {
	name    string // with slashes
	mode    fs.FileMode
	content []byte
}

// archive returns the archive of a platform: a zip file for Windows, and a
// compressed tar file for the others. All files have the time of the revision,
// belong to root and are sorted by name.
func (s *source) archive(name, goos string, files []file) ([]file, error) {
	names := []string{"LICENSE", "README.md", "CHANGELOG.md"}
	if goos == "linux" {
		names = append(names, "docs/deploy/systemd/ration.service", "docs/deploy/systemd/ration-run.service",
			"docs/deploy/systemd/ration-run.timer",
			"docs/deploy/systemd/sysusers.conf")
	}
	for _, from := range names {
		text, err := s.read(from)
		if err != nil {
			return nil, err
		}
		files = append(files, file{strings.TrimPrefix(from, "docs/deploy/"), 0o644, text})
	}
	slices.SortFunc(files, byName)
	if goos == "windows" {
		content, err := s.zip(name+"/", files)
		return []file{{name + ".zip", 0o644, content}}, err
	}
	content, err := s.tar(name, files)
	return []file{{name + ".tar.gz", 0o644, content}}, err
}

func (s *source) tar(folder string, files []file) ([]byte, error) {
	var out bytes.Buffer
	packer, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(packer)
	for _, f := range files {
		head := &tar.Header{Name: folder + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.content)),
			ModTime: s.date, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), packer.Close())
	return out.Bytes(), err
}

func byName(a, b file) int { return strings.Compare(a.name, b.name) }

// zip returns the files in a zip file. folder is "", or ends with a slash.
func (s *source) zip(folder string, files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		name := folder + f.name
		if f.name == "ration" {
			name += ".exe"
		}
		head := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: s.date}
		head.SetMode(f.mode)
		part, err := w.CreateHeader(head)
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
