# Everything happens in ./.venv; nothing else on the machine is touched.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
EXPORT_VENV := $(VENV)/export
EXPORT_PY := $(EXPORT_VENV)/bin/python
# The first of these that runs; the server's wheel and NumPy 1.26 allow 3.10 to 3.12.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.10 python3,$(if $(shell $(p) -c 'import sys; print(1 if (3,10) <= sys.version_info[:2] <= (3,12) else "")' 2>/dev/null),$(p))))

# Says whether a Python runs and is one of those.
FITTING = sh -c 'command -v "$$0" >/dev/null && "$$0" -c "import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))" 2>/dev/null'

.DEFAULT_GOAL := help
.PHONY: help demo test test-export serve lint format proto configs models lock wheel clean check-system

help: ## Show what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check-system:
	@[ "$$(uname -sm)" = "Linux x86_64" ] || { echo "cropseek: needs Linux x86-64, this is $$(uname -sm); use the Dockerfile's cpu target" >&2; exit 1; }
	@v=$$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2); [ -n "$$v" ] && [ "$$(printf '2.35\n%s\n' "$$v" | sort -V | head -1)" = 2.35 ] || { echo "cropseek: needs glibc 2.35 or newer, this is $${v:-another libc}; use the Dockerfile's cpu target" >&2; exit 1; }
	@$(FITTING) $(PY) 2>/dev/null || $(FITTING) "$(PYTHON)" || { echo "cropseek: needs Python 3.10, 3.11 or 3.12, got '$(PYTHON)'; install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }

$(VENV)/installed: requirements.lock pyproject.toml | check-system
	@$(FITTING) $(PY) && $(PY) -c 'import pip' 2>/dev/null || { rm -rf $(VENV); "$(PYTHON)" -m venv $(VENV); } || { rm -rf $(VENV); echo "cropseek: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing cropseek and what it needs into ./$(VENV) (360 MB to download, once; a silent minute or two)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

demo: $(VENV)/installed ## Index real pictures, search one, write demo/index.html
	@$(VENV)/bin/cropseek demo

serve: $(VENV)/installed ## Serve on 127.0.0.1:50051 until ctrl-C
	@$(VENV)/bin/cropseek serve

test: lint ## Lint, types, and every test that needs no torch or DALI
	@$(PY) -m pytest --ignore=tests/export

lint: $(VENV)/installed ## Ruff, mypy, and hadolint on the Dockerfile
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/hadolint Dockerfile

format: $(VENV)/installed ## Format the code
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

proto: $(VENV)/installed ## Generate service/cropseek/pb from proto/
	@$(PY) -m grpc_tools.protoc -I cropseek/pb=proto/cropseek/v1 \
		--python_out=service --pyi_out=service --grpc_python_out=service cropseek/pb/cropseek.proto

configs: $(VENV)/installed ## Render every model's config.pbtxt files
	@$(PY) -m cropseek.triton.profiles model_repository

$(EXPORT_VENV)/installed: requirements-export.lock pyproject.toml $(VENV)/installed
	@[ -x $(EXPORT_PY) ] || $(PY) -m venv $(EXPORT_VENV)
	@echo "installing torch, Ultralytics and DALI into ./$(EXPORT_VENV) (gigabytes, once)"
	@$(EXPORT_PY) -m pip install --quiet --disable-pip-version-check -r requirements-export.lock
	@$(EXPORT_PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

test-export: $(EXPORT_VENV)/installed ## The tests that need torch, Ultralytics or DALI
	@$(EXPORT_PY) -m pytest tests/export

models: $(EXPORT_VENV)/installed ## Make the served ONNX files and models.toml anew
	@$(EXPORT_PY) -m cropseek_export all --repository model_repository

lock: ## Resolve pyproject.toml anew into the lock files (needs uv)
	@uv pip compile --quiet --universal --python-version 3.10 --custom-compile-command "make lock" \
		pyproject.toml --extra dev --extra bench -o requirements.lock
	@uv pip compile --quiet --universal --python-version 3.10 --custom-compile-command "make lock" \
		pyproject.toml --extra export --extra dali --extra dev --extra bench -o requirements-export.lock

wheel: $(VENV)/installed ## Build the wheel into dist/
	@$(PY) -m build --wheel --installer uv 2>/dev/null || $(PY) -m build --wheel

clean: ## Remove the environment and everything made; what you indexed stays
	rm -rf $(VENV) dist build demo
