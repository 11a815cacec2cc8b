# SPDX-License-Identifier: Apache-2.0
"""The contract between a board's agent and the host: frames, messages and blob layouts.

Imports nothing but construct and the standard library, and performs no input or output.
`protocol/SPEC.md` says in prose what these modules say in code.
"""
