from datetime import timedelta

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from shop.models import Cart


class Command(BaseCommand):
    help = "Delete carts without an order that were not touched for some days"

    def add_arguments(self, parser):
        parser.add_argument("--days", type=int, default=30)
        parser.add_argument("--batch-size", type=int, default=500)
        parser.add_argument("--dry-run", action="store_true")

    def handle(self, *args, **options):
        if options["days"] < 1:
            raise CommandError("--days must be positive")
        cutoff = timezone.now() - timedelta(days=options["days"])
        queryset = Cart.objects.filter(order__isnull=True, updated_at__lt=cutoff)
        total = queryset.count()
        self.stdout.write(f"{total} carts older than {cutoff:%Y-%m-%d}")
        if options["dry_run"] or not total:
            return
        deleted = 0
        while True:
            ids = list(queryset.values_list("pk", flat=True)[: options["batch_size"]])
            if not ids:
                break
            with transaction.atomic():
                Cart.objects.filter(pk__in=ids).delete()
            deleted += len(ids)
            if options["verbosity"] > 1:
                self.stdout.write(f"  {deleted}/{total}")
        self.stdout.write(self.style.SUCCESS(f"deleted {deleted} carts"))
