"""Configures Django for the tests; importing it is enough."""

from __future__ import annotations

import django
from django.conf import settings

settings.configure(
    ROOT_URLCONF="tests.django_site",
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["waterclock.django.RateLimitMiddleware"],
    SECRET_KEY="for tests",
)
django.setup()
